"""Release 0.1.0 and this one on one server at once: each key gets one life, both see the same lanes and workers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.test_architecture import ROOT
from txmanager.core.models import IntentId, LaneSpec
from txmanager.ledger.redis import RedisLedger
from txmanager.testing.ledger.home_at_once import end_of
from txmanager.testing.ledger.stage import Stage

KEYS = 200


async def begun_by_the_older(ledger: RedisLedger) -> None:
    """Release 0.1.0 registered the first lane, so that the installation waits for an operator's upgrade."""
    await ledger.runner.plain(ledger._keys.schema, ("SET", ledger._keys.schema, 1))


async def asking(source: Path, url: str, name: str, lane: str, *keys: int) -> asyncio.subprocess.Process:
    script = str(ROOT / "tests" / "upgrade" / "asking.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, script, url, name, lane, *map(str, keys)),
        env={**os.environ, "PYTHONPATH": str(source)},
        cwd=source,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert Path(json.loads(await process.stdout.readline())["source"]).is_relative_to(source)
    return process


async def test_both_releases_accept_the_same_keys_at_once_and_each_key_gets_one_life(old_release, make_server):
    url = make_server().url
    lanes = {"old": "near:net:a:1", "new": "near:net:b:2"}
    ledger = RedisLedger(url, prefix="both", durability="none")
    await begun_by_the_older(ledger)
    for lane in lanes.values():  # whoever begins knows both
        await ledger.register(LaneSpec(lane, "pool"))
    running = {
        "old": await asking(old_release, url, "old", lanes["old"], KEYS - 1, -1, -1),
        "new": await asking(ROOT, url, "new", lanes["new"], 0, KEYS, 1),
    }  # they meet in the middle
    told = {}
    outputs = await asyncio.gather(*(process.communicate(b"go\n") for process in running.values()))
    for name, (output, _) in zip(running, outputs, strict=True):
        assert running[name].returncode == 0
        *answers, told[name] = [json.loads(line) for line in output.splitlines()]
        told[name]["answers"] = {a["key"]: a for a in answers}
        assert len(told[name]["answers"]) == KEYS
    both = [(told["old"]["answers"][f"k{n}"], told["new"]["answers"][f"k{n}"]) for n in range(KEYS)]
    assert all((a["life"], a["lane"]) == (b["life"], b["lane"]) for a, b in both)
    assert {a["lane"] for a, _ in both} == set(lanes.values()), "both route to both lanes"
    first = sum(not told["new"]["answers"][f"k{n}"]["replayed"] for n in range(KEYS))
    assert 0 < first < KEYS, "each of them was the first with some key"
    for name in running:
        assert told[name]["routes"] == [[lane, "active"] for lane in sorted(lanes.values())]
        assert told[name]["members"] == ["new", "old"]
    try:
        views = await ledger.lanes()
        assert sum(view.depth for view in views) == KEYS, "nothing twice"
        assert await ledger.read(IntentId("pool", "k0")) is not None
    finally:
        await ledger.close()


async def test_an_end_that_went_home_at_once_is_read_by_both_releases_alike(old_release, make_server):
    url, lane = make_server().url, "near:net:a:1"
    ledger = RedisLedger(url, prefix="both", durability="none")
    stage = Stage(ledger, None, None)  # type: ignore[arg-type]
    try:
        await begun_by_the_older(ledger)
        await ledger.register(LaneSpec(lane, "pool"))
        fence = await stage.own(lane)
        [write] = await stage.inflight(fence)
        [answer] = await ledger.settle(fence, [await end_of(stage, write)])
        assert answer.retired
        record = await stage.read(write)
    finally:
        await ledger.close()
    script = str(ROOT / "tests" / "upgrade" / "reading.py")
    told = []
    for source in (old_release, ROOT):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, script, url, lane, write.id.key),
            env={**os.environ, "PYTHONPATH": str(source)},
            cwd=source,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        told.append(json.loads(output))
    old, new = told
    assert old == new
    assert (old["status"], old["times"]) == ("done", [record.created_at, answer.at])
    assert (old["hash"], old["attempts"]) == (write.attempt.hash, [[write.attempt.nonce, write.attempt.hash]])
    assert (old["claim"], old["same"]) == (["final", lane, write.life], True)
    assert (old["append"], old["unretired"]) == ("retired", 0)
