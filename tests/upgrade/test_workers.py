"""A worker of release 0.1.0 and one of this release serve the same lanes, under load, in both directions."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.devnet.process import Devnet
from tests.runtime.stage import Stage
from tests.test_architecture import ROOT
from tests.waiting import until, until_sync
from txmanager.ledger.redis import RedisLedger

SCRIPT = str(ROOT / "tests" / "upgrade" / "working.py")
LANES = 8
AT_ONCE = 60


@dataclass
class Working:
    """A process of one release."""

    process: asyncio.subprocess.Process

    async def say(self, *words: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        async with asyncio.timeout(30):
            return dict(json.loads(await self.process.stdout.readline()))

    async def owned(self) -> set[str]:
        return set((await self.say("look"))["owned"])

    async def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b'["stop"]\n')
        assert await asyncio.wait_for(self.process.wait(), 30) == 0

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def working(source: Path, name: str, url: str, node: str, told: Path) -> AsyncIterator[Working]:
    log = told.with_name(f"{name}.log")
    with log.open("a") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, SCRIPT, url, node, name, str(told)),
            env={**os.environ, "PYTHONPATH": str(source)},
            cwd=source,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line, log.read_text()[-2000:]
        assert Path(json.loads(line)).is_relative_to(source)
        yield Working(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def shared(*them: Working) -> None:
    """Each owns some of the lanes, and none is owned twice."""

    async def each_has_some() -> bool:
        sets = [await one.owned() for one in them]
        return all(sets) and sum(map(len, sets)) == len(set().union(*sets)) == LANES

    await until(each_has_some, 20, every=0.1, what="the lanes are shared")


async def ended(asked: Working, first: int, last: int) -> None:
    async def all_done() -> bool:
        return set((await asked.say("statuses", first, last))["statuses"]) == {"done"}

    await until(all_done, 30, every=0.1, what=f"k{first} to k{last - 1} are done")


@pytest.mark.alone
async def test_workers_of_both_releases_share_lanes_die_and_come_back_without_a_break(
    old_release, make_server, tmp_path
):
    """Half of the lanes move from one to the other while intents are in flight; then one dies, then the other leaves,
    and the older one carries on alone: each payment is made once."""
    url = make_server().url
    with Devnet(accounts=LANES + 2, keys=1, block_ms=50, delay_ms=0) as devnet:
        until_sync(lambda: devnet.head("final")["height"] > 100_000_000, what="blocks beyond genesis are final")
        stage = Stage(devnet, RedisLedger(url, prefix="work", durability="none"), iter(devnet.told["accounts"][LANES:]))
        accounts, receiver = devnet.told["accounts"][:LANES], stage.receiver["account_id"]
        told = tmp_path / "accounts.json"
        told.write_text(json.dumps({"accounts": accounts, "receiver": receiver}))
        at = (url, devnet.url, told)
        async with working(old_release, "old", *at) as old, working(ROOT, "new", *at) as new:
            await shared(old, new)
            both = (old.say("submit", 1, 1 + AT_ONCE), new.say("submit", 1, 1 + AT_ONCE))  # the same keys at once
            a, b = await asyncio.gather(*both)
            assert a["lanes"] == b["lanes"]
            assert a["members"] == b["members"] == ["new", "old"]
            await old.kill()
            await new.say("submit", 101, 101 + AT_ONCE)
            await ended(new, 1, 1 + AT_ONCE)
            await ended(new, 101, 101 + AT_ONCE)
            assert len(await new.owned()) == LANES
            async with working(old_release, "old", *at) as back:
                await shared(back, new)
                await back.say("submit", 201, 201 + AT_ONCE)
                await new.stop()
                await back.say("submit", 301, 301 + AT_ONCE)
                await ended(back, 201, 201 + AT_ONCE)
                await ended(back, 301, 301 + AT_ONCE)
                assert len(await back.owned()) == LANES
                await back.stop()
        paid = sorted(amount for account in accounts for amount in stage.amounts(account))
        assert paid == [n for start in (1, 101, 201, 301) for n in range(start, start + AT_ONCE)]
        await stage.close()
