"""Do imports go one way, and do heavy libraries stay in their rooms?"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("contrastive", "analysis", "study")
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
RAY_ROOMS = {"study/execution.py", "study/resources.py", "study/cards.py"}
FORBIDDEN = {
    "contrastive": {"study", "analysis", "ray", "optuna", "mlflow", "yaml"},
    "analysis": {"study", "contrastive", "ray", "optuna", "mlflow", "torch"},
    "study": set(),
}


def imported(file: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_go_one_way(file: Path):
    name = str(file.relative_to(ROOT))
    names = imported(file)
    assert not names & FORBIDDEN[name.split("/")[0]]
    assert "ray" not in names or name in RAY_ROOMS
    assert "mlflow" not in names or name == "study/tracking.py"


def test_a_driver_plans_searches_and_reports_without_pytorch():
    """Which takes 400 MB and two seconds; only what trains or times a training may import it."""
    modules = "run whole search confirm execution resources tracking report verify"
    lines = ["import sys", *(f"import study.{name}" for name in modules.split())]
    code = "; ".join([*lines, "sys.exit('torch' in sys.modules)"])
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_spec_does_no_input_or_output():
    names = imported(ROOT / "study" / "spec.py")
    assert not names & {"os", "pathlib", "yaml", "io", "json"}
