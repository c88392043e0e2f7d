"""Many callers, several processes, one key: one record, and everybody is told of that one."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.ledger.conftest import redis_stage
from txmanager.core.errors import KeyReused
from txmanager.core.models import LaneSpec, new_intent
from txmanager.runtime.accept.producer import Producer
from txmanager.testing.ledger.stage import POOL, Stage

PROCESSES, CALLERS, KEYS = 4, 200, 50
LANES = [f"near:net:relayer:{n}" for n in range(4)]


@pytest.mark.parametrize("server", ["redis7", "cluster"])
async def test_200_submitters_of_4_processes_with_50_keys_make_50_records(
    server: str, prefix: str, request: pytest.FixtureRequest
):
    url = request.getfixturevalue(server).url
    async with redis_stage(url, prefix) as stage:
        for lane in LANES:
            await stage.ledger.register(LaneSpec(lane, POOL))
        arguments = ["-m", "tests.ledger.submitters", url, prefix, str(CALLERS // PROCESSES), str(KEYS)]
        pipe = asyncio.subprocess.PIPE
        running = [
            await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=pipe, stdout=pipe)
            for _ in range(PROCESSES)
        ]
        for process in running:
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
        said = await asyncio.gather(*(process.communicate(b"go\n") for process in running))
        told = [tuple(answer) for out, _ in said for answer in json.loads(out)]
        assert len(told) == CALLERS
        assert len({answer[0] for answer in told}) == KEYS
        assert len(set(told)) == KEYS, "two callers of one key were told of different records"
        views = await stage.ledger.lanes()
        assert sum(view.depth for view in views) == KEYS
        assert sum([len(await stage.ledger.events(lane)) for lane in LANES]) == KEYS


async def test_key_with_another_payload_is_refused_and_changes_nothing(backend: str, stage: Stage):
    await stage.lane()
    producer = Producer(stage.ledger)
    intent = stage.intent("key")
    first = await producer.submit(intent)
    with pytest.raises(KeyReused):
        await producer.submit(new_intent(key="key", pool=POOL, kind="near.transfer", payload={"to": "eve"}))
    again = await producer.submit(intent)
    assert (again.replayed, again.record.life) == (True, first.record.life)
    assert len(await stage.ledger.events(first.record.lane)) == 1
