"""The walls between packages and folders, checked in the syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("contrastive", "analysis", "study")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
FOLDERS = sorted({file.parent for file in FILES})
FORBIDDEN = {
    "contrastive": {"study", "analysis", "ray", "optuna", "mlflow", "yaml"},
    "analysis": {"study", "contrastive", "ray", "optuna", "mlflow", "torch"},
    "study": {"contrastive", "torch"},
}
ROOMS = {"ray": "study/execution/", "mlflow": "study/tracking/"}
CATALOGUES = {"contrastive/data/formats", "contrastive/losses"}
MOST_LEVELS = {"study": 8, "analysis": 8, "contrastive": 9}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(file: Path) -> set[str]:
    """The dotted names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(dotted: str) -> str | None:
    """The folder below a package, or the file at its top, that a dotted name lies in."""
    parts = dotted.split(".")
    if parts[0] not in PACKAGES:
        return None
    if len(parts) == 1 or (ROOT / parts[0] / parts[1]).is_dir():
        return ".".join(parts[:2])
    return ".".join(parts[:2]) if (ROOT / parts[0] / f"{parts[1]}.py").exists() else parts[0]


def arrows(package: str) -> dict[str, set[str]]:
    """For each room of a package the other rooms of it that it imports when it is imported."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / package).rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[1] == "__init__":
            continue
        room = ".".join(parts[:2])
        others = {room_of(name) for name in imports(file)} - {None, room, package}
        found.setdefault(room, set()).update(o for o in others if o.startswith(f"{package}."))
    return found


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_imports_only_what_its_room_may(file: Path):
    name = name_of(file)
    tops = {dotted.split(".")[0] for dotted in imports(file)}
    assert not tops & FORBIDDEN[name.split("/")[0]]
    for library, room in ROOMS.items():
        assert library not in tops or name.startswith(room)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_runs_back_up(package: str):
    """Peels off the rooms that import nothing that is left; a circle would stay."""
    left, levels = arrows(package), 0
    while left:
        free = [room for room, others in left.items() if not others & left.keys()]
        assert free, f"these rooms import each other in a circle: {sorted(left)}"
        left = {room: others for room, others in left.items() if room not in free}
        levels += 1
    assert levels <= MOST_LEVELS[package]


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_a_folder_can_be_taken_in_at_a_glance(folder: Path):
    files = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    if folder.relative_to(ROOT).as_posix() in CATALOGUES:
        return  # one file for each member, however many there come to be
    assert 4 <= len(files) <= 9


@pytest.mark.slow
def test_a_driver_plans_searches_and_reports_without_pytorch():
    """Which takes 400 MB and two seconds; only what trains or times a training may import it."""
    modules = (
        "run session phases.search phases.confirmation execution.ray_tune execution.resources "
        "tracking.mlflow_tracker report reporting.verify"
    )
    lines = ["import sys", *(f"import study.{name}" for name in modules.split())]
    code = "; ".join([*lines, "sys.exit('torch' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_design_does_no_input_or_output():
    for file in (ROOT / "study" / "design").glob("*.py"):
        tops = {dotted.split(".")[0] for dotted in imports(file)}
        assert not tops & {"os", "pathlib", "yaml", "io", "json"}


BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.IfExp, ast.comprehension,
            ast.ExceptHandler, ast.match_case, ast.BoolOp)  # fmt: skip


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_long_function_is_one_straight_story(file: Path):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            branches = sum(isinstance(part, BRANCHES) for part in ast.walk(node))
            assert lines <= 60 or branches <= 12, f"{node.name}: {lines} lines, {branches} branches"
