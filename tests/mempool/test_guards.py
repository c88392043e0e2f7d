"""Each guard of each mempool script, taken out one at a time, breaks the promise that is named beside it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.guards import Guard
from tests.mempool.guards import GUARDS
from tests.mempool.promises import PROMISES
from tests.mempool.redis_only import REDIS_PROMISES
from tests.mempool.stage import Stage, redis_stage, scripts_on_test_time
from txmanager.core.admission import Limits, Mempool
from txmanager.ledger.redis import scripts
from txmanager.ledger.redis.mempool import RedisMempool
from txmanager.ledger.redis.scripts import build

ALL = PROMISES | REDIS_PROMISES
PATIENCE_S = 20.0
"""Only a promise that waits for what a mutant prevents takes so long."""
FOLDER = Path(scripts.__file__).parent / "lua"


def label(guard: Guard) -> str:
    return f"{guard.script}-{guard.text.strip()[:40]}-{guard.without.strip()[:20]}"


@pytest.mark.parametrize("guard", GUARDS, ids=label)
async def test_a_script_without_this_guard_breaks_its_promise(guard: Guard, redis7: Any, prefix: str):
    assert guard.text in (FOLDER / f"{guard.script}.lua").read_text(), (
        f"{guard.script}.lua has no {guard.text!r} any more"
    )
    broken = {
        name: build(name, whole.text.replace(guard.text, guard.without))
        for name, whole in scripts_on_test_time().items()
        if guard.text in whole.text
    }
    async with redis_stage(redis7.url, prefix) as stage:
        make = stage.make

        def without(limits: Limits) -> Mempool:
            mempool = make(limits)
            assert isinstance(mempool, RedisMempool)
            mempool.runner.scripts.update(broken)
            return mempool

        stage.make = without
        probe = without(Limits())
        assert isinstance(probe, RedisMempool)
        for one in broken.values():
            await probe.runner.plain("x", ("SCRIPT", "LOAD", one.text))  # it is still Lua: what breaks is the promise
        with pytest.raises((Exception, pytest.fail.Exception)):
            await asyncio.wait_for(ALL[guard.promise](stage), PATIENCE_S)


def test_every_script_and_piece_that_decides_is_in_the_table():
    deciding = {
        path.stem for path in FOLDER.glob("*mempool*.lua") if re.search(r"(?m)^\s*(if|elseif)\b", path.read_text())
    }
    assert deciding <= {guard.script for guard in GUARDS}


@pytest.mark.parametrize("promise", REDIS_PROMISES)
async def test_redis_keeps(promise: str, redis_one: Stage):
    await REDIS_PROMISES[promise](redis_one)
