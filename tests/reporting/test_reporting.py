"""A run that skipped something or took too long does not pass for a good one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reporting.budgets import Budgets, suite_of

ROOT = Path(__file__).parent.parent.parent
SUITE = """
import pytest
def test_passes(): pass
def test_skips(): pytest.skip(REASON)
@pytest.mark.xfail
def test_is_known_to_fail(): assert False
"""


def run(folder: Path, source: str, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.reporting.skips"]\n')
    (folder / "test_it.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, str(folder)],
        env=os.environ | {"CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("reason", "ci", "exit_code"),
    [
        ("no server", "true", 1),
        ("no server", "", 0),
        ("cannot run here: needs Windows", "true", 0),
    ],
)
def test_a_skip_fails_the_run_in_ci_only_and_unless_it_is_explained(tmp_path, reason, ci, exit_code):
    for source in (
        SUITE.replace("REASON", repr(reason)),
        f"import pytest\npytest.skip({reason!r}, allow_module_level=True)",
    ):
        said = run(tmp_path, source, ci)
        expected = 5 if exit_code == 0 and "allow_module_level" in source else exit_code
        if expected == 1:
            assert f"skipped in CI: {reason}" in said.stdout
            assert said.returncode in (1, 2)
        else:
            assert said.returncode == expected, said.stdout


def test_suites_are_the_folders_and_files_of_the_tests():
    assert suite_of("tests/core/test_router.py::test_x[a/b]") == "core"
    assert suite_of("tests/test_architecture.py::test_x") == "test_architecture.py"


def test_a_suite_over_its_budget_is_named():
    budgets = Budgets("total = 100\ndefault = 5\n[suites]\ncore = 20", strict=True)
    budgets.spend("tests/core/a.py::t", 19)
    budgets.spend("tests/new/a.py::t", 3)
    assert budgets.over() == []
    budgets.spend("tests/new/b.py::t", 3)
    assert budgets.over() == ["new"]
    assert budgets.lines()[1] == "new        6.0 s of     5 s  OVER BUDGET"
    budgets.spend("tests/core/b.py::t", 80)
    assert budgets.over() == ["core", "new", "total"]


def test_budgets_leave_room_below_the_limit_of_ci():
    import tomllib

    settings = tomllib.loads((ROOT / "tests" / "budgets.toml").read_text())
    assert settings["total"] <= 54 * 60 * 2, "two cores"
    assert sum(settings["suites"].values()) <= settings["total"]
