"""`txmanager ledger upgrade`: what release 0.1.0 left is finished, and what is left of release 0.1.0 does no harm."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.upgrade.test_beside import begun_by_the_older
from txmanager.core.ledger import SCHEMA, Entry
from txmanager.core.models import LaneSpec, new_intent
from txmanager.core.states import Status
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.accept.producer import Producer
from txmanager.testing.ledger.home_at_once import end_of
from txmanager.testing.ledger.stage import BASE, Stage

LANE = "near:net:a:1"

_OLDER = """
import asyncio, json, sys
from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import Entry
from txmanager.core.models import LaneSpec, new_intent
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.producer import Producer

async def main(url, lane, words):
    ledger = RedisLedger(url, prefix="both", durability="none", timeout_s=5.0)
    for word in words:
        if word == "register":
            await ledger.register(LaneSpec(lane, "pool"))
            told = "ok"
        elif word == "lease":
            told = (await ledger.lease(lane, "older", "token", 60_000)).word
        else:
            intent = new_intent(key=word, pool="pool", kind="near.transfer", payload={"to": "bob"})
            try:
                told = (await Producer(ledger).submit(intent)).record.status.value
            except TxManagerError as error:
                told = type(error).__name__
        print(json.dumps(told), flush=True)
    await ledger.close()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
"""


async def older(source: Path, url: str, *words: str) -> list[str]:
    """A process of release 0.1.0 that does these steps."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _OLDER, url, LANE, *words),
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-2000:]
    return [str(json.loads(line)) for line in output.splitlines()]


async def test_what_release_0_1_0_began_is_finished_after_the_upgrade(old_release, make_server):
    url = make_server().url
    assert await older(old_release, url, "register", "before", "retried") == ["ok", "queued", "queued"]
    ledger = RedisLedger(url, prefix="both", durability="none")
    stage = Stage(ledger, None, None)  # type: ignore[arg-type]
    try:
        assert await ledger.schema() == 1, "its lanes are there"
        assert (await ledger.register(LaneSpec(LANE, "pool"))).schema == 1
        fence = await stage.own(LANE)
        [first, second] = await ledger.take(fence, 9)
        write = stage.write(Entry(first.intent, first.life, 0), BASE, position=first.position)
        assert await ledger.record_attempts(fence, BASE, [write]) == BASE + 1
        assert await ledger.upgrade() == [LANE]
        [answer] = await ledger.settle(fence, [await end_of(stage, write)], BASE)
        assert (answer.word, answer.retired) == ("settled", True)
        assert (await stage.read(write)).status is Status.DONE
        assert await ledger.take(fence, 9) == [second]
        retry = new_intent(key="retried", pool="pool", kind="near.transfer", payload={"to": "bob"})
        again = await Producer(ledger).submit(retry)
        assert (again.replayed, again.record.life) == (True, second.life)
        statuses = [event.status.value for event in await ledger.events(LANE)]
        assert statuses == ["queued", "queued", "inflight", "done"], "old entries and new ones are read in order"
    finally:
        await ledger.close()


async def test_release_0_1_0_neither_appends_to_a_raised_lane_nor_owns_it(old_release, make_server):
    url = make_server().url
    ledger = RedisLedger(url, prefix="both", durability="none")
    try:
        await begun_by_the_older(ledger)
        await ledger.register(LaneSpec(LANE, "pool"))
        assert await older(old_release, url, "one") == ["queued"]
        assert await ledger.upgrade() == [LANE]
        assert await older(old_release, url, "two", "lease", "one") == ["QueueFull", "schema", "queued"]
        view = await ledger.lane(LANE)
        assert view is not None
        assert (view.depth, view.schema) == (1, SCHEMA)
        intent = new_intent(key="two", pool="pool", kind="near.transfer", payload={"to": "bob"})
        assert (await Producer(ledger).submit(intent)).record.status is Status.QUEUED
    finally:
        await ledger.close()
