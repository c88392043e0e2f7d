"""kill -9 of real archivers, on both databases, while intents end: nothing is lost or doubled.

What is archived is compared with the ledger.

`TXMANAGER_KILLS` sets how many; more of them find rarer things.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.api.stage import Program
from tests.archive.conftest import new_url
from tests.conftest import HasUrl
from tests.ledger.conftest import redis_stage, until_replicas_confirm
from tests.servers import Postgres, Sentinel
from tests.waiting import until
from txmanager.archive import Database, SqlReader
from txmanager.core.archive import UsageQuery
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Fence
from txmanager.core.listing import Filter, Mark
from txmanager.core.models import Record
from txmanager.testing.ledger import Stage

KILLS = int(os.environ.get("TXMANAGER_KILLS", "8"))
LANES, MAX_LAG = 2, 60


async def listed(reader: SqlReader) -> list[Record]:
    found: list[Record] = []
    before: Mark | None = None
    while True:
        page = await reader.page(Filter(), before, 500)
        found += page.records
        before = page.next
        if before is None:
            return found


def config(folder: Path, ledger: str, prefix: str, archive: str, durability: str) -> Path:
    file = folder / "txmanager.toml"
    told = f'[archive]\nurl = "{archive}"\nperiod_s = 0.02\nmax_lag = {MAX_LAG}\n'
    file.write_text(f'[ledger]\nurl = "{ledger}"\nprefix = "{prefix}"\ndurability = "{durability}"\n{told}')
    return file


async def fail_over(sentinel: Sentinel, stage: Stage, fences: Sequence[Fence]) -> None:
    """Kill the primary while the archivers work. A settle is durable in its home; that the lane has it, too, waits for
    the replica here, because no chain is there to settle it again."""

    def change() -> None:
        with sentinel.primary.client() as client:
            client.set("before the failover", "1")
            assert client.wait(1, 10_000) == 1
        new = sentinel.fail_over()
        next(server for server in sentinel.data if server is not new).start()
        sentinel.wait_ok()

    await asyncio.to_thread(change)

    async def vouched(fence: Fence) -> bool:
        try:
            view = await stage.ledger.lane(fence.lane)
            if view is None:
                return False  # asked of the old primary, which came back with nothing
            if not view.moved:
                return True
            await stage.ledger.vouch(fence, view.history_id, view.found_history_id)
        except Unavailable:
            pass
        return False

    for fence in fences:
        await until(partial(vouched, fence), 60, every=0.05, what="the lane goes on with the new primary")
    await until_replicas_confirm(sentinel.url, again=True)


@pytest.mark.parametrize(("kind", "topology"), [("sqlite", "single"), ("postgres", "sentinel")])
async def test_archivers_killed_at_random_lose_and_double_nothing(
    kind: str, topology: str, redis7: HasUrl, make_sentinel: Callable[..., Sentinel], prefix: str, tmp_path: Path
):
    server: Postgres | None = None
    url = f"sqlite:///{tmp_path}/archive.db"
    if kind == "postgres":
        server = Postgres().start()  # its own: it is killed, too
        url = await new_url(server)
    sentinel = make_sentinel(down_after_ms=500) if topology == "sentinel" else None
    ledger, durability = (redis7.url, "fsync") if sentinel is None else (sentinel.url, "replicas")
    if sentinel is not None:
        await until_replicas_confirm(sentinel.url)
    chance = random.Random(24)
    file = config(tmp_path, ledger, prefix, url, durability)
    archivers = [Program("archiver", file), Program("archiver", file)]
    wanted: dict[str, str] = {}
    try:
        async with redis_stage(ledger, prefix, durability=durability, archive_lag=MAX_LAG, timeout_s=5.0) as stage:
            fences = [await stage.own(await stage.lane(f"near:net:relayer:ed25519.{n}")) for n in range(LANES)]
            for kills in range(KILLS):
                program = archivers[kills % 2].start()

                async def at_work() -> bool:
                    waiting = [await stage.ledger.unarchived(fence.lane, 1) for fence in fences]
                    return waiting == [[], []]

                # killed at its work, and not as it starts; every fourth time as it starts
                if kills % 4:
                    await until(at_work, 60, what="what waited is archived")
                for _ in range(chance.randrange(1, 6)):
                    fence = chance.choice(fences)
                    batch = await stage.settled(fence, chance.randrange(1, 40))
                    wanted |= {write.life: str(write.id) for write in batch}
                    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 99))
                    await asyncio.sleep(chance.random() * 0.6)
                if sentinel is not None and kills == KILLS // 3:
                    await fail_over(sentinel, stage, fences)
                if server is not None and kills == KILLS // 2:
                    server.kill()
                    server.start()
                program.kill()
            last = archivers[0].start()
            database = Database(url)
            reader = SqlReader(database)

            async def all_there() -> bool:
                last.said("x")  # tells when it ended
                try:
                    return sum(line.count for line in await reader.usage(UsageQuery(()))) == len(wanted)
                except Unavailable:
                    return False

            await until(all_there, 60, every=0.2, what="every ended intent is archived")
            found = await listed(reader)
            assert len(found) == len({r.life for r in found}), "stored twice"
            assert {r.life: str(r.id) for r in found} == wanted
            for fence in fences:

                async def acknowledged(lane: str = fence.lane) -> bool:
                    return await stage.ledger.unarchived(lane, 9) == []

                await until(acknowledged, 30, what="the ledger knows what is archived")
                assert (await stage.ledger.backlog(fence.lane, 9)).lost == 0
            for record in chance.sample(found, min(50, len(found))):
                kept = await stage.ledger.read(record.id)
                assert kept is not None
                assert (kept.outcome, kept.status, kept.life) == (record.outcome, record.status, record.life)
            without = sum(not r.intent.payload for r in found)
            print(f"{kind}: {KILLS} kills, {len(found)} intents, {without} of them without payload")
            await database.close()
    finally:
        for program in archivers:
            program.kill()
        if server is not None:
            server.close()
