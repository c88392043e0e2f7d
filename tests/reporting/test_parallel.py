"""A run in several processes means the same as a run in one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.reporting.parallel import plan
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
CONFTEST = """
import os, signal, time
from pathlib import Path
import pytest
pytest_plugins = ["tests.reporting.budgets", "tests.reporting.parallel", "tests.reporting.skips"]
LOG = Path(__file__).parent / "log.txt"

def pytest_configure(config):
    def stop(number, frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, stop)

def say(words):
    with LOG.open("a") as log:
        log.write(f"{words} {os.getpid()}\\n")

@pytest.fixture(scope="session", autouse=True)
def server():
    say("server up")
    yield
    say("server down")

@pytest.fixture(autouse=True)
def noted(request):
    say(f"begin {request.node.name}")
    yield
    say(f"end {request.node.name}")
"""


class Suite:
    def __init__(self, folder: Path, **files: str) -> None:
        self.folder = folder
        (folder / "conftest.py").write_text(CONFTEST)
        for name, source in files.items():
            (folder / f"test_{name}.py").write_text(f"import os, time, pytest\n{source}\n")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-c", "pytest.ini", "--processes=2", *words]

    def environment(self, ci: str = "") -> dict[str, str]:
        (self.folder / "pytest.ini").write_text("[pytest]\n")
        return os.environ | {"CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(self, *words: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.environment(ci),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def log(self) -> list[str]:
        return (self.folder / "log.txt").read_text().splitlines() if (self.folder / "log.txt").exists() else []


PASSES = "def test_{0}_one(): pass\ndef test_{0}_two(tmp_path): (tmp_path / 'x').touch()"


def test_every_test_runs_once_with_one_server_in_each_process(tmp_path: Path):
    suite = Suite(tmp_path, **{name: PASSES.format(name) for name in "abcdef"})
    ran = suite.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^12 passed in", ran.stdout, re.MULTILINE)
    assert "processor time of each suite" in ran.stdout
    names = [line.split()[1] for line in suite.log if line.startswith("begin")]
    assert len(names) == len(set(names)) == 12
    ups = [line.split()[-1] for line in suite.log if line.startswith("server up")]
    downs = [line.split()[-1] for line in suite.log if line.startswith("server down")]
    assert len(set(ups)) == len(ups) == 2
    assert sorted(ups) == sorted(downs)


def test_what_failed_is_named_and_is_all_that_runs_again(tmp_path: Path):
    suite = Suite(
        tmp_path, good=PASSES.format("good"), bad="def test_bad(): assert 1 == 2, 'odd'\ndef test_fine(): pass"
    )
    ran = suite.run()
    assert ran.returncode == 1
    assert "odd" in ran.stdout
    assert re.search(r"^1 failed, 3 passed in", ran.stdout, re.MULTILINE)
    (tmp_path / "log.txt").unlink()
    again = suite.run("--last-failed", "--last-failed-no-failures", "none")
    assert again.returncode == 1
    assert [line.split()[1] for line in suite.log if line.startswith("begin")] == ["test_bad"]


def test_a_test_that_must_be_alone_runs_when_all_others_have_ended(tmp_path: Path):
    alone = "@pytest.mark.alone\ndef test_alone_one(): pass\n@pytest.mark.alone\ndef test_alone_two(): pass"
    suite = Suite(tmp_path, a=alone, **{name: PASSES.format(name) for name in "bcd"})
    assert suite.run().returncode == 0
    order = [" ".join(line.split()[:-1]) for line in suite.log if not line.startswith("server")]
    assert order[-4:] == ["begin test_alone_one", "end test_alone_one", "begin test_alone_two", "end test_alone_two"]
    at = next(n for n, line in enumerate(suite.log) if "alone" in line)
    assert [line.split()[1] for line in suite.log[:at] if line.startswith("server")].count("down") == 2


def test_a_process_that_dies_fails_the_test_it_ran_and_no_other(tmp_path: Path):
    suite = Suite(
        tmp_path,
        a=PASSES.format("a"),
        dies="def test_first(): pass\ndef test_dies(): os._exit(9)\ndef test_rest(): pass",
    )
    ran = suite.run()
    assert ran.returncode == 1
    assert "the test process ended with 9" in ran.stdout
    assert re.search(r"^1 failed, 4 passed in", ran.stdout, re.MULTILINE)
    assert "FAILED test_dies.py::test_dies" in ran.stdout


def test_a_server_that_does_not_end_fails_the_run_and_hides_nothing(tmp_path: Path):
    stuck = "@pytest.fixture(scope='session')\ndef stuck():\n    yield\n    raise RuntimeError('does not stop')\n"
    bad = "def test_it(stuck): pass\ndef test_bad(): assert 1 == 2, 'odd'"
    suite = Suite(tmp_path, a=stuck + bad, b=PASSES.format("b"))
    ran = suite.run()
    assert ran.returncode == 1
    assert "does not stop" in ran.stdout
    assert "odd" in ran.stdout
    assert re.search(r"^1 failed, 3 passed, 1 error in", ran.stdout, re.MULTILINE)


def test_skips_fail_in_ci_and_collection_errors_end_the_run(tmp_path: Path):
    suite = Suite(tmp_path, a="def test_skips(): pytest.skip('no server')", b=PASSES.format("b"))
    assert suite.run().returncode == 0
    ran = suite.run(ci="true")
    assert ran.returncode == 1
    assert "skipped in CI: no server" in ran.stdout
    (tmp_path / "test_c.py").write_text("import nothing_of_this_name")
    ran = suite.run()
    assert ran.returncode == 2
    assert "nothing_of_this_name" in ran.stdout


def test_the_first_failure_stops_the_run_when_asked_to(tmp_path: Path):
    rest = {name: f"import time\ndef test_{name}(): time.sleep(0.3)" for name in "bcdefghijklmnop"}
    suite = Suite(tmp_path, a="def test_a(): assert False", **rest)
    ran = suite.run("-x")
    assert ran.returncode == 1
    assert "stopping after 1 failures" in ran.stdout
    assert len([line for line in suite.log if line.startswith("begin")]) < 10


def test_a_run_that_is_terminated_tears_its_servers_down(tmp_path: Path):
    hangs = {name: f"def test_{name}(): time.sleep(600)" for name in "ab"}
    suite = Suite(tmp_path, **hangs)
    with subprocess.Popen(suite.command(), env=suite.environment(), cwd=tmp_path, stdout=subprocess.PIPE) as running:
        try:
            until_sync(lambda: len([line for line in suite.log if "begin" in line]) == 2, 60, what="both tests run")
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 2
    assert len([line for line in suite.log if line.startswith("server down")]) == 2


class Item:
    def __init__(self, nodeid: str, alone: bool = False) -> None:
        self.nodeid = nodeid
        self.alone = alone

    def get_closest_marker(self, name: str) -> bool:
        return self.alone


def test_the_longest_file_starts_first():
    items = [Item("a.py::t"), Item("b.py::t"), Item("new.py::t"), Item("b.py::u"), Item("c.py::t", alone=True)]
    units, alone = plan(items, {"a.py": 3.0, "b.py": 40.0})  # type: ignore[arg-type]
    assert [(unit.name, len(unit.items)) for unit in units] == [("b.py", 2), ("new.py", 1), ("a.py", 1)]
    assert [unit.name for unit in alone] == ["c.py::t"]
