"""The workloads that a study can name: built-in ones, installed ones, functions of the user."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from study.errors import listing, nearest
from study.workload.function import FunctionWorkload
from study.workload.interface import SettingsError, Workload

BUILT_IN = {"contrastive": "contrastive.workload:WORKLOAD"}
GROUP = "contrastive_study.workloads"  # entry points of packages that publish workloads
OWN_PACKAGES = ("study", "analysis", "contrastive")


def load_workload(
    name: str, beside: str = "", metrics: Mapping[str, Mapping[str, str]] | None = None
) -> Workload:
    """The workload of this name.

    Args:
        name: `contrastive`, the name of an installed workload, or `module:function`.
        beside: folder of the study file, where modules are looked for first.
        metrics: that a function reports, as the study file declares them.

    Raises:
        SettingsError: there is no such workload, it cannot be imported, or is none.
    """
    published = {point.name: point.value for point in metadata.entry_points(group=GROUP)}
    known = published | BUILT_IN
    if name not in known and ":" not in name:
        close = nearest(name, known)
        raise SettingsError(
            f"workload is `{name}`, which is not known",
            allowed=f"{listing(known)}, or module:function with a function of yours",
            remedy=f"workload: {close}" if close else f"workload: {name}:train",
        )
    found = load_object(known.get(name, name), beside if name not in known else "")
    if hasattr(found, "train") and not isinstance(found, type):
        return found
    if not callable(found):
        raise SettingsError(
            f"workload `{name}` is {type(found).__name__}, not a function",
            allowed="def train(run, *, learning_rate: float = 0.1, epochs: int = 5)",
        )
    return FunctionWorkload(found, name, metrics)


def load_object(name: str, beside: str = "") -> Any:
    """What `module:name` stands for; the module is looked for in `beside`, then where Python looks.

    Raises:
        SettingsError: the module or the name in it cannot be found, or the module fails.
    """
    module_name, _, attribute = name.partition(":")
    if not (attribute and module_name and all(p.isidentifier() for p in module_name.split("."))):
        raise SettingsError(f"`{name}` is not a module:name", allowed="such as my_training:train")
    module = _import(module_name, name, beside)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            public = [
                n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))
            ]
            close = nearest(part, public)
            raise SettingsError(
                f"`{name}`: {module.__file__} has no `{attribute}`",
                allowed=listing(public) or "the module defines no function",
                remedy=f"{module_name}:{close}" if close else "",
            )
        found = getattr(found, part)
    return found


def _import(module_name: str, name: str, beside: str) -> ModuleType:
    top = module_name.partition(".")[0]
    if beside:
        _look_in(beside)
        _forget_changed(beside)
        _forget_another(top, beside)
    try:
        module = importlib.import_module(module_name)
        _IMPORTED.update(_changes_of(beside))
        return module
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from None  # the module is there, one that it imports is not
        here = sorted(file.stem for file in Path(beside or ".").glob("*.py"))
        close = nearest(top, here)
        raise SettingsError(
            f"`{name}`: there is no module `{module_name}`"
            + (f" in {beside}, and none is installed" if beside else ""),
            allowed=f"a module there: {listing(here) or 'none'}; or an installed one",
            remedy=f"{close}:{name.partition(':')[2]}" if close else "",
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from None


def _failed(name: str, error: BaseException) -> SettingsError:
    """The module's own error: its last line and place."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else "its import"
    text = traceback.format_exception_only(error)[-1].strip()
    return SettingsError(
        f"`{name}` cannot be imported: {text} ({place})",
        remedy=f"python -c 'import {name.partition(':')[0]}' shows the whole traceback",
    )


def _look_in(folder: str) -> None:
    """Python looks in the folder first; our own packages were found before, so none is shadowed."""
    for package in OWN_PACKAGES:
        importlib.import_module(package)
    if sys.path[:1] != [folder]:
        sys.path[:] = [folder, *(other for other in sys.path if other != folder)]


_IMPORTED: dict[str, tuple[str, int]] = {}  # module: file beside a study, its time of change


def _changes_of(beside: str) -> dict[str, tuple[str, int]]:
    """The modules that were imported from a folder, with the times when their files changed."""
    modules = sys.modules.copy()  # at once: other threads import meanwhile
    files = {name: getattr(module, "__file__", None) for name, module in modules.items()}
    start = f"{beside}{os.sep}"
    return {
        name: (file, os.stat(file).st_mtime_ns)
        for name, file in files.items()
        if beside and file and file.startswith(start) and os.path.exists(file)
    }


def own_code(beside: str) -> str:
    """Digest of the modules that were imported from the folder beside a study; "" for none."""
    files = sorted(file for file, _ in _changes_of(beside).values()) if beside else []
    if not files:
        return ""
    content = hashlib.sha256()
    for file in files:
        content.update(os.path.relpath(file, beside).encode() + b"\0" + Path(file).read_bytes())
    return content.hexdigest()[:12]


def _forget_changed(beside: str) -> None:
    """In a notebook a file is changed and loaded again; what imports it is imported again, too."""
    now = _changes_of(beside)
    if any(_IMPORTED.get(name, change) != change for name, change in now.items()):
        for name in now:
            if name.partition(".")[0] not in OWN_PACKAGES:
                del sys.modules[name]
        importlib.invalidate_caches()


def _forget_another(top: str, beside: str) -> None:
    """Forget a module of this name that was imported from elsewhere than beside the study."""
    here = [Path(beside, f"{top}.py"), Path(beside, top, "__init__.py")]
    loaded = sys.modules.get(top)
    if loaded is None or not any(file.exists() for file in here):
        return
    if top in sys.stdlib_module_names or top in OWN_PACKAGES:
        raise SettingsError(
            f"{beside}/{top}.py has the name of a module that is in use", remedy="rename the file"
        )
    origin = getattr(loaded, "__file__", None)
    if origin is None or Path(origin).resolve() not in [file.resolve() for file in here]:
        for known in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
            del sys.modules[known]
