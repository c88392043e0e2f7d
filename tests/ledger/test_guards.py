"""Each guard of each Lua script, taken out one at a time, breaks the promise that is named beside it."""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from typing import Any
from unittest.mock import patch

import pytest

from tests.ledger import schemas
from tests.ledger.accept_guards import ACCEPT
from tests.ledger.archive_guards import ARCHIVES
from tests.ledger.break_guards import BREAKS
from tests.ledger.budget_guards import BUDGETS
from tests.ledger.conftest import redis_stage
from tests.ledger.guards import GUARDS as OTHERS
from tests.ledger.guards import Guard
from tests.ledger.hint_guards import HINTS
from tests.ledger.home_guards import HOMES_AT_ONCE
from tests.ledger.number_guards import NUMBERS
from tests.ledger.parking_guards import PARKING
from tests.ledger.parking_redis import REDIS_PROMISES
from tests.ledger.redis_only import redis_of
from tests.ledger.schema_guards import SCHEMAS
from tests.ledger.seal_guards import SEALS
from tests.ledger.session_guards import SESSIONS
from txmanager.ledger.redis import owners
from txmanager.ledger.redis.scripts import build, names, script
from txmanager.testing.ledger import PROMISES

GUARDS = [
    *OTHERS,
    *ACCEPT,
    *NUMBERS,
    *SEALS,
    *BREAKS,
    *BUDGETS,
    *SESSIONS,
    *ARCHIVES,
    *HOMES_AT_ONCE,
    *SCHEMAS,
    *HINTS,
    *PARKING,
]
assert schemas, "its promises are among them"
ALL = PROMISES | REDIS_PROMISES
PATIENCE_S = 2.0
"""A promise that waits for what a mutant prevents is broken, too."""


def _label(guard: Guard) -> str:
    return f"{guard.script}-{guard.text[:40]}"


@pytest.mark.parametrize("guard", GUARDS, ids=_label)
async def test_a_script_without_this_guard_breaks_its_promise(guard: Guard, redis7, prefix: str):
    whole = script(guard.script).text
    assert guard.text in whole, f"{guard.script}.lua has no {guard.text!r} any more: update tests/ledger/guards.py"
    async with redis_stage(redis7.url, prefix, schema=guard.schema) as stage:
        broken = whole.replace(guard.text, guard.without)
        runner = redis_of(stage).runner
        runner.scripts[guard.script] = build(guard.script, broken)
        await runner.plain("x", ("SCRIPT", "LOAD", broken))  # it is still Lua: what breaks is the promise
        # `pytest.raises` inside a promise fails with an exception that is no Exception
        with pytest.raises((Exception, pytest.fail.Exception)):
            await asyncio.wait_for(ALL[guard.promise](stage), PATIENCE_S)


TAKE = [
    (
        "if (epoch, token) != (str(fence.epoch), fence.token):",
        "if False:",
        "stale_owner_can_not_take_and_parks_nothing",
    ),
    (
        "if state not in (LaneState.ACTIVE, LaneState.DRAINING):",
        "if False:",
        "take_of_a_paused_or_quarantined_lane_is_empty",
    ),
    ('f"({upto}"', '"-"', "take_again_answers_the_same_until_written_ahead"),
    ('f"({upto}"', "upto", "take_again_answers_the_same_until_written_ahead"),
    ("if found == upto:", "if True:", "take_begins_behind_what_a_call_without_an_answer_wrote_ahead"),
    ('"COUNT", count', '"COUNT", 1', "take_hands_out_in_order_of_acceptance"),
    ("entries or ()", "entries", "take_hands_out_in_order_of_acceptance"),
]
"""Of the one operation that is no script: text in its source, what replaces it, the promise that must then break."""


@pytest.mark.parametrize(("text", "without", "promise"), TAKE, ids=[f"{old}-{new}"[:60] for old, new, _ in TAKE])
async def test_a_take_without_this_guard_breaks_its_promise(text: str, without: str, promise: str, redis7, prefix: str):
    source = textwrap.dedent(inspect.getsource(owners.Owners.take))
    assert text in source
    made: dict[str, Any] = {}
    exec(source.replace(text, without), dict(vars(owners)), made)
    async with redis_stage(redis7.url, prefix) as stage:
        with (
            patch.object(owners.Owners, "take", made["take"]),
            pytest.raises((Exception, pytest.fail.Exception)),
        ):
            await asyncio.wait_for(ALL[promise](stage), PATIENCE_S)


async def test_a_missing_write_shows_although_others_write_to_the_server(redis7, prefix: str):
    """Workers of another test may share the server: what they write is not this script's write."""
    guard = next(guard for guard in GUARDS if guard.script == "claim" and "SETRANGE" in guard.text)
    over = asyncio.Event()

    async def noise() -> None:
        async with redis_stage(redis7.url, f"{prefix}noise") as other:
            while not over.is_set():
                await redis_of(other).runner.plain("x", ("INCR", f"{prefix}noise"))

    async with redis_stage(redis7.url, prefix) as stage, asyncio.TaskGroup() as group:
        group.create_task(noise())
        redis_of(stage).runner.scripts["claim"] = build("claim", script("claim").text.replace(guard.text, ""))
        with pytest.raises(AssertionError, match="claim answered without a write"):
            await ALL[guard.promise](stage)
        over.set()


def test_every_script_that_decides_is_in_the_table():
    ours = [name for name in names() if not name.startswith("mempool_")]  # tests/mempool has those
    deciding = {name for name in ours if re.search(r"(?m)^\s*(if|elseif)\b", script(name).text)}
    assert deciding <= {guard.script for guard in GUARDS}
