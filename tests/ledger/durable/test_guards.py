"""Each guard of the Worker, taken out one at a time, breaks the promise that is named beside it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.ledger.conftest import durable_stage
from tests.ledger.durable.guards import GUARDS, Guard
from tests.ledger.durable.promises import DURABLE_PROMISES
from tests.servers.processes import make_folder
from tests.servers.workerd import SOURCE, Workerd, package
from txmanager.testing.ledger import PROMISES

ALL = PROMISES | DURABLE_PROMISES
PATIENCE_S = 4.0
"""A promise that waits for what a mutant prevents is broken, too."""


@pytest.fixture(scope="session")
def mutants() -> Path:
    """A bundle of each mutant, made in one go."""
    folder = make_folder("mutants")
    told = json.dumps([guard._asdict() for guard in GUARDS])
    command = ["node", str(Path(__file__).parent / "mutants.mjs"), str(folder)]
    done = subprocess.run(command, cwd=package(), input=told, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def _label(number: int) -> str:
    guard = GUARDS[number]
    return f"{guard.file}-{re.sub(r'[^A-Za-z]+', '_', guard.text)[:40]}-{number}"


@pytest.mark.parametrize("number", range(len(GUARDS)), ids=_label)
async def test_a_worker_without_this_guard_breaks_its_promise(number: int, mutants: Path, prefix: str):
    guard: Guard = GUARDS[number]
    whole = (SOURCE / "src" / guard.file).read_text()
    assert guard.text in whole, f"{guard.file} has no {guard.text!r} any more: update tests/ledger/durable/guards.py"
    with Workerd(bundle=mutants / f"{number}.js") as running:
        async with durable_stage(running.url, prefix, timeout_s=2.0) as stage:
            assert await stage.ledger.now_ms()  # it still runs: what breaks is the promise
            # `pytest.raises` inside a promise fails with an exception that is no Exception
            with pytest.raises((Exception, pytest.fail.Exception)):
                await asyncio.wait_for(ALL[guard.promise](stage), PATIENCE_S)


def test_every_file_that_decides_is_in_the_table():
    deciding = {
        str(path.relative_to(SOURCE / "src"))
        for path in (SOURCE / "src").rglob("*.ts")
        if re.search(r"checkFence\(|return \{ word: '|throw new Refusal", path.read_text())
    }
    said_of_nothing = {"home.ts", "lane/operations.ts", "registry/index.ts"}  # what is not there, or not known
    assert deciding <= {guard.file for guard in GUARDS} | said_of_nothing
