"""The scene `cloudflare`: resident lanes under workerd, killed again and again, judged by the simulator's checker.

A kill strikes anywhere, at the first byte of a send (the node gets the bytes, or does not), or in the middle of an
alarm: a process that was just started has nothing but its alarms to work from. For a while a twin serves the same disk.
`python -m tests.resident.scene --kills 300` plays the long one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from typing import Any

from tests.chaos import evidence
from tests.chaos.blocks import SeenChain
from tests.chaos.crowd import POOL, Crowd
from tests.devnet.process import Devnet
from tests.resident.node_door import NodeDoor
from tests.servers.resident import Resident
from tests.waiting import until
from txmanager.client import AsyncClient
from txmanager.core.errors import TxManagerError
from txmanager.core.models import IntentId, Record
from txmanager.ledger.durable import DurableObjectLedger

SORTS = ("anywhere", "send not forwarded", "send forwarded", "mid-alarm", "twin")
_DEPTH = 6
_SETTLE_S = 90.0


class Cloudflare:
    def __init__(self, kills: int, *, lanes: int = 4, seed: int = 0, bundle: Any = None) -> None:
        self.kills, self.lanes, self.seed, self._bundle = kills, lanes, seed, bundle
        self.rng = random.Random(f"cloudflare:{seed}")
        self.counts: Counter[str] = Counter()
        self._doomed = asyncio.Event()
        self._plan = ""
        self._depth = 0

    async def play(self) -> dict[str, Any]:
        began = time.monotonic()
        with Devnet(accounts=2, keys=self.lanes, block_ms=30) as devnet:
            self.devnet = devnet
            async with NodeDoor(devnet.url, None) as door:
                self.door = door
                door.before, door.after = self._before, self._after
                self.resident = await asyncio.to_thread(self._start)
                door._disk = self.resident.disk
                self.ledger: DurableObjectLedger = self.resident.ledger()
                receiver = devnet.account(1)["account_id"]
                urls = [self.resident.url]
                self.crowd = Crowd(urls, "token-all", receiver, self.rng, lambda: self._depth < _DEPTH * self.lanes)
                try:
                    result = await self._strike_and_judge()
                finally:
                    self.crowd.close()
                    await self.ledger.close()
                    await asyncio.to_thread(self.resident.close)
        return {**result, "took_s": round(time.monotonic() - began, 1)}

    def _start(self, **more: Any) -> Resident:
        relayer = self.devnet.account(0)
        keys = relayer["keys"][: self.lanes]
        return Resident(relayer["account_id"], keys, [self.door.url], pool_name=POOL, bundle=self._bundle, **more)

    # -- killing

    def _before(self, method: str) -> None:
        if self._plan == "mid-alarm" or (self._plan == "send not forwarded" and method == "send_tx"):
            self._kill()
            raise ConnectionError("killed")

    def _after(self, method: str) -> None:
        if self._plan == "send forwarded" and method == "send_tx":
            self._kill()
            raise ConnectionError("killed")

    def _kill(self) -> None:
        self._plan = ""
        self.resident.kill()
        self._doomed.set()

    async def _strike(self, sort: str) -> None:
        if sort == "twin":
            return await self._twin()
        if sort == "mid-alarm":
            await asyncio.to_thread(self.resident.kill)
            self.counts["anywhere"] += 1
            self._doomed.clear()
            self._plan = sort
            await asyncio.to_thread(self.resident.spawn)
        elif sort == "anywhere":
            await asyncio.sleep(self.rng.uniform(0.0, 0.4))
            self._plan = ""
            await asyncio.to_thread(self.resident.kill)
            self._doomed.set()
        else:
            self._doomed.clear()
            self._plan = sort
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._doomed.wait(), 20)
        if not self._doomed.is_set():  # nothing was sent meanwhile
            self._plan = ""
            await asyncio.to_thread(self.resident.kill)
            sort = "anywhere"
        self.counts[sort] += 1
        self._doomed.clear()
        await asyncio.to_thread(self.resident.start)
        return None

    async def _twin(self) -> None:
        """A second process on the same disk: both serve the same objects, and both are asked."""
        twin = await asyncio.to_thread(self._start, disk=self.resident.disk)
        try:
            other = Crowd([twin.url], "token-all", self.crowd._receiver, self.rng, lambda: False)
            for amount in self.rng.sample(list(self.crowd.accepted), min(20, len(self.crowd.accepted))):
                other.keys[amount] = self.crowd.keys[amount]
                await other._ask(amount)
            self.crowd.facts += other.facts
            fresh = range(len(self.crowd.keys) + 1, len(self.crowd.keys) + 9)
            for amount in fresh:
                self.crowd.keys[amount] = IntentId(POOL, f"k{amount}")
            both = [self.crowd._clients[0], other._clients[0]]
            told = [self._ask_of(both[amount % 2], amount) for amount in fresh]
            await asyncio.gather(*told, return_exceptions=True)
            for amount in fresh:
                self.crowd._spawn(self.crowd._insist(amount))  # whatever it was told: it asks until it knows
            await asyncio.sleep(self.rng.uniform(0.2, 1.0))
            other.close()
        finally:
            await asyncio.to_thread(twin.close)
        self.counts["twin"] += 1

    async def _ask_of(self, client: AsyncClient, amount: int) -> None:
        await client.submit("near.transfer", self.crowd.payload(amount), key=f"k{amount}")

    # -- playing and judging

    async def _strike_and_judge(self) -> dict[str, Any]:
        gauge = asyncio.create_task(self._gauge())
        self.crowd.start()
        try:
            await until(lambda: len(self.crowd.accepted) > 3, 60, what="the first intents are accepted")
            sorts = [SORTS[n % len(SORTS)] for n in range(self.kills)]
            self.rng.shuffle(sorts)
            for sort in sorts:
                await self._strike(sort)
                await asyncio.sleep(self.rng.uniform(0.05, 0.5))
        finally:
            gauge.cancel()
        await self.crowd.stop_within(_SETTLE_S)
        await until(self._settled, _SETTLE_S, every=0.2, what="everything is settled")
        await self.crowd.replay()
        return await self._judge()

    async def _gauge(self) -> None:
        while True:
            with contextlib.suppress(TxManagerError):
                self._depth = sum(lane.depth for lane in await self.ledger.lanes())
            await asyncio.sleep(0.1)

    async def _settled(self) -> bool:
        with contextlib.suppress(TxManagerError):
            lanes = await self.ledger.lanes()
            return bool(lanes) and sum(lane.depth for lane in lanes) == 0
        return False

    async def _judge(self) -> dict[str, Any]:
        records: dict[IntentId, Record] = {}
        for id in self.crowd.accepted.values():
            record = await self.ledger.read(id)
            if record is not None:
                records[id] = record
        chain = await asyncio.to_thread(lambda: SeenChain().read(self.devnet))
        lanes = await self.ledger.lanes()
        checked = evidence.judge(
            lines=[*_written(records), *_sent(self.door, records)],
            more=self.crowd.facts,
            records=records,
            lanes=lanes,
            chain=chain,
            keys=self.crowd.keys,
            acknowledged=set(self.crowd.accepted.values()),
            window=1,
            vouches=True,
            rolled_back=False,
            at_end=time.monotonic(),
        )
        paid = chain.paid()
        twice = [f"{amount} was paid {count} times" for amount, count in paid.items() if count > 1]
        return {
            "violations": [*checked.violations, *twice],
            "counts": dict(self.counts),
            "accepted": len(self.crowd.accepted),
            "unique": len([amount for amount in paid if amount]),
            "final": len([r for r in records.values() if r.status.final]),
            "held": checked.ends["held"],
            "resigned": sum(len(r.attempts) - 1 for r in records.values() if r.attempts),
            "sends": len(self.door.sent),
            "retries": self.crowd.retries,
            "invalid_nonce": self.devnet.admin("", method="GET")["refused"].get("InvalidNonce", 0),
            "lanes": {lane.id[-6:]: (str(lane.state), lane.reason, lane.epoch) for lane in lanes},
        }


def _shift() -> float:
    """From the wall clock, which records have, to the monotonic one."""
    return time.time() - time.monotonic()


def _written(records: dict[IntentId, Record]) -> list[dict[str, Any]]:
    """Write-aheads and ends in the words of a worker's journal: a resident keeps none, and the store has them all."""
    lines: list[dict[str, Any]] = []
    for record in records.values():
        for attempt in record.attempts:
            batch = {
                "id": str(record.id),
                "life": record.life,
                "position": record.position,
                "nonce": attempt.nonce,
                "hash": attempt.hash,
                "purpose": attempt.purpose.value,
                "deaths": [],
            }
            at = attempt.signed_at / 1000 - _shift()
            lines.append({"at": at, "what": "try_record", "lane": record.lane, "batch": [batch]})
        if record.outcome is not None:
            end = record.outcome
            told = {"status": end.status.value, "tx_hash": end.tx_hash, "nonce": end.nonce}
            told |= {"result": end.result, "error": end.error}
            batch = {"id": str(record.id), "life": record.life, "outcome": told, "deaths": []}
            at = record.updated_at / 1000 - _shift()
            lines.append({"at": at, "what": "try_settle", "lane": record.lane, "batch": [batch]})
    return sorted(lines, key=lambda line: (line["what"] != "try_record", line["at"]))


def _sent(door: NodeDoor, records: dict[IntentId, Record]) -> list[dict[str, Any]]:
    lanes = {attempt.hash: record.lane for record in records.values() for attempt in record.attempts}
    return [
        {"at": one["at"], "what": "sent", "lane": lanes.get(one["hash"], ""), "hashes": [[one["hash"], one["known"]]]}
        for one in door.sent
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    result = asyncio.run(Cloudflare(told.kills, seed=told.seed).play())
    print(json.dumps(result, indent=1))
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
