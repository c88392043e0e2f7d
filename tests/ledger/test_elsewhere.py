"""The promise suite holds a ledger elsewhere: the example of docs/ledgers.md, run outside of this repository."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_architecture import ROOT
from txmanager.testing.ledger import PROMISES

PAGE = ROOT / "docs" / "ledgers.md"
FORGETFUL = """

class Forgetful(MemoryLedger):
    async def append(self, lane, entries):
        answers = await super().append(lane, entries)
        return [type(a)("appended", a.position, a.status, a.depth, a.at) for a in answers]


MemoryLedger = Forgetful
"""


def run(folder: Path, source: str) -> tuple[int, int]:
    """(passed, failed) of a test file that knows nothing but the installed txmanager."""
    (folder / "test_backend.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_backend.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    found = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed)", ended.stdout)}
    assert found, ended.stdout[-2000:] + ended.stderr[-2000:]
    return found.get("passed", 0), found.get("failed", 0)


@pytest.fixture
def example() -> str:
    [source] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    return str(source)


def test_the_example_of_the_page_holds_the_memory_ledger_to_every_promise(example, tmp_path):
    assert run(tmp_path, example) == (len(PROMISES), 0)


def test_a_ledger_that_breaks_a_promise_is_caught(example, tmp_path):
    head, imported, rest = example.partition("from txmanager.testing.ledger import PROMISES, Stage\n")
    passed, failed = run(tmp_path, head + imported + FORGETFUL + rest)
    assert failed >= 1
    assert passed + failed == len(PROMISES)


def test_every_part_of_the_protocol_is_on_the_page():
    from txmanager.core.ledger import Ledger

    text = PAGE.read_text()
    for part in Ledger.__mro__[1:]:
        if part.__module__.startswith("txmanager."):
            assert f"`{part.__name__}`" in text
