"""The parts of a training by name: losses, encoders, datasets and evaluations.

Built-in names stand here without PyTorch: a study's driver plans, searches and reports by them, and
a mistake in a study file is found at once. The functions behind the names are `losses.LOSSES` and
`encoders.ENCODERS`; the tests hold both sides against each other.

A part of the user's own is named `module:function`. A package can publish short names for its parts
as entry points of the groups `contrastive_study.losses`, `.encoders`, `.datasets`, `.evaluations`.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Collection
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple, get_type_hints

from contrastive.messages import first_line, nearest, with_place

_POSITIVES = (
    "temperature",
    "labels",
    "aggregation",
    "false_negatives",
    "negatives",
    "normalise",
)

LOSS_OPTIONS: dict[str, tuple[str, ...]] = {
    "contrastive": _POSITIVES,
    "debiased_neg": (*_POSITIVES, "tau_plus", "floor"),
    "debiased_pos": (*_POSITIVES, "tau_plus", "floor", "formula"),
    "debiased_both": (*_POSITIVES, "tau_plus", "floor", "alpha", "formula"),
    "hard_neg": (*_POSITIVES, "tau_plus", "floor", "beta"),
    "supcon": ("temperature", "labels"),
    "triplet": ("labels", "margin"),
}

ENCODER_NAMES = ("small_cnn", "resnet18", "resnet50")

OWN_FORM = "module:function"
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_imported: dict[str, Callable[..., Any]] = {}

Load = Callable[[str], Any]


class PartError(ValueError):
    """A part that is unknown, cannot be imported or has another form than it should.

    Attributes:
        settings: names of those that it is about, as far as known.
    """

    settings: tuple[str, ...] = ()


class Option(NamedTuple):
    """A keyword-only parameter of an own loss.

    Attributes:
        hint: its type, with the bounds of `Annotated[..., Field(...)]`; `Any` without one.
        default: `inspect.Parameter.empty` where it has none.
    """

    hint: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether it has to be set."""
        return self.default is inspect.Parameter.empty


def accepted(name: str) -> tuple[str, ...]:
    """The keyword arguments of the loss called `name`, `labels` among them where it reads labels.

    Raises:
        ValueError: there is no such loss; the message names the nearest one.

    Example:
        >>> "beta" in accepted("hard_neg"), "beta" in accepted("contrastive")
        (True, False)
    """
    if name in LOSS_OPTIONS:
        return LOSS_OPTIONS[name]
    return tuple(keywords(part("losses", name, LOSS_OPTIONS), name))


def is_own(name: Any) -> bool:
    """Whether a name has the form `module:function`.

    Example:
        >>> is_own("my_losses:barlow"), is_own("supcon")
        (True, False)
    """
    return isinstance(name, str) and _OWN.fullmatch(name) is not None


@cache
def published(group: str) -> dict[str, str]:
    """`module:function` by short name, as installed packages publish them for a group."""
    return {e.name: e.value for e in metadata.entry_points(group=f"contrastive_study.{group}")}


def known(group: str, name: Any, built_in: Collection[str]) -> bool:
    """Whether a name is built in, has the form `module:function`, or is published."""
    if not isinstance(name, str):
        return False
    return name in built_in or is_own(name) or name in published(group)


def unknown(group: str, name: Any, built_in: Collection[str]) -> PartError:
    """The error for a name that is none of these."""
    names = [*built_in, *published(group)]
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    singular = {"losses": "loss"}.get(group, group.removesuffix("s"))
    return PartError(
        f"{singular} {name!r} is unknown; allowed: {', '.join([*names, OWN_FORM])}{hint}"
    )


def part(
    group: str, name: str, built_in: Collection[str] = (), load: Load | None = None
) -> Callable[..., Any]:
    """The function behind a name that is not built in.

    Args:
        group: "losses", "encoders", "datasets" or "evaluations".
        name: `module:function`, or a published name.
        built_in: other names, for the message.
        load: imports `module:function`, here and from now on in this process; None: what an earlier
            call imported, else Python's own import.

    Raises:
        PartError: unknown, cannot be imported, or not a function.
    """
    if not (is_own(name) or name in published(group)):
        raise unknown(group, name, built_in)
    reference = name if is_own(name) else published(group)[name]
    if load is None and reference in _imported:
        return _imported[reference]
    found = (load or imported)(reference)
    if not callable(found):
        raise PartError(f"{reference} is no function but {type(found).__name__}")
    _imported[reference] = found
    return found


def metric_name(evaluation: str) -> str:
    """The metric that an evaluation records, after `val/` and `test/`.

    Example:
        >>> metric_name("my_metrics:rank_me"), metric_name("rank_me")
        ('rank_me', 'rank_me')
    """
    return evaluation.rpartition(":")[2].rpartition(".")[2]


def imported(reference: str) -> Any:
    """What `module:name` names, found where Python looks for modules.

    Raises:
        PartError: there is no such module, its import fails, or it has no such name.
    """
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise PartError(
                f"{reference}: there is no module {error.name}; allowed: a file {error.name}.py in "
                "the working directory, or an installed package"
            ) from error
        raise PartError(f"{reference}: importing it fails: {first_line(error)}") from error
    except Exception as error:  # whatever the user's module raises
        raise PartError(f"{reference}: importing it fails: {with_place(error, None)}") from error
    found = module
    for step in attribute.split("."):
        if not hasattr(found, step):
            near = nearest(step, dir(found))
            hint = f"; did you mean {near}?" if near else ""
            raise PartError(f"{reference}: the module {module_name} has no {attribute}{hint}")
        found = getattr(found, step)
    return found


def keywords(function: Callable[..., Any], name: str) -> dict[str, Option]:
    """The keyword-only parameters of an own loss, `labels` and `temperature` among them.

    Raises:
        PartError: it does not take `views` as its first argument and the rest by keyword only.
    """
    parameters = list(inspect.signature(function).parameters.values())
    kinds = inspect.Parameter
    if not parameters or parameters[0].kind not in (
        kinds.POSITIONAL_ONLY,
        kinds.POSITIONAL_OR_KEYWORD,
    ):
        raise PartError(
            f"{name} takes no views; allowed: def {function.__name__}(views, *, …), views (V, B, D)"
        )
    for parameter in parameters[1:]:
        rest = parameter.name
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            raise PartError(
                f"{name}: its parameter {rest} may be given by position; allowed: options by "
                f"keyword only; try: def {function.__name__}(views, *, {rest}, …)"
            )
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception as error:  # a name that only type checkers import, for one
        raise PartError(
            f"{name}: the types of its parameters cannot be read: {first_line(error)}"
        ) from error
    return {
        p.name: Option(hints.get(p.name, _type_of(p.default)), p.default)
        for p in parameters[1:]
        if p.kind is kinds.KEYWORD_ONLY
    }


def _type_of(default: Any) -> Any:
    """The type of a parameter that is declared by its default alone."""
    return type(default) if isinstance(default, bool | int | float | str) else Any
