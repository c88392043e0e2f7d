"""Producers and workers of one process on a real devnet over HTTP: what most of these tests play on."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.devnet.process import Devnet
from tests.waiting import until
from txmanager.chains.near import NearChain, NearNetwork, NearPolicy
from txmanager.core.decide import Policy
from txmanager.core.ledger import Ledger
from txmanager.core.models import Intent, IntentId, Lane, LaneSpec, Record, intent_id, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.runtime.manager import TxManager
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.secret import Secret

POOL = "p"
TIMING = Timing(lease_ms=1500, margin_ms=300, poll_s=0.05, grace_s=5.0)
POLICY = Policy(window=16, include_within_ms=500)
NETWORK = NearNetwork(validity_blocks=86_400, epoch_blocks=20_000, head_fresh_s=0.2)
Account = dict[str, Any]


def lane_of(account: Account) -> str:
    return f"near:localnet:{account['account_id']}:{account['public_key']}"


def make_chain(
    url: str | Sequence[Endpoint],
    accounts: Sequence[Account],
    *,
    policy: NearPolicy | None = None,
    settings: NearNetwork = NETWORK,
    kind: type[NearChain] = NearChain,
) -> NearChain:
    signers = {lane_of(a): Ed25519Signer.parse(Secret(a["private_key"])) for a in accounts}
    endpoints = [Endpoint(url, direct=True)] if isinstance(url, str) else url
    return kind("localnet", endpoints, signers, settings=settings, policy=policy, rng=random.Random(1))


@dataclass(frozen=True)
class Transfer:
    """A transfer as the chain holds it."""

    nonce: int
    receiver_id: str
    amount: int
    hash: str


@dataclass
class Running:
    worker: Worker
    task: asyncio.Task[None]
    chain: NearChain

    async def stop(self) -> None:
        self.worker.stop()
        await self.task
        await self.chain.close()

    async def crash(self) -> None:
        """End at once, as a killed process would: no drain, no release."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.chain.close()

    @property
    def owned(self) -> list[str]:
        return self.worker.owned


@dataclass
class Stage:
    devnet: Devnet
    ledger: Ledger
    fresh: Iterator[Account]
    """Accounts nobody used before: each is a lane of its own."""
    running: list[Running] = field(default_factory=list)
    _scanned: int = 0
    _found: list[tuple[str, str, Transfer]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.account = next(self.fresh)
        self.receiver = next(self.fresh)
        self.lane = lane_of(self.account)
        self.producer = Producer(self.ledger, routes_for_s=0.0)
        self.manager = TxManager(self.ledger)
        self._scanned = int(self.devnet.head()["height"])

    # -- workers

    async def start(
        self,
        *accounts: Account,
        url: str | Sequence[Endpoint] | None = None,
        policy: Policy = POLICY,
        timing: Timing = TIMING,
        near: NearPolicy | None = None,
        network: NearNetwork = NETWORK,
        kind: type[NearChain] = NearChain,
        own: bool = True,
        **more: Any,
    ) -> Running:
        """A worker for these accounts (or this stage's); with `own`, wait until it owns their lanes."""
        served = accounts or (self.account,)
        chain = make_chain(url or self.devnet.url, served, policy=near, settings=network, kind=kind)
        services = {lane_of(a): Service(LaneSpec(lane_of(a), self.pool_of(a)), chain, policy) for a in served}
        worker = Worker(more.pop("ledger", self.ledger), services, timing=timing, **more)
        running = Running(worker, asyncio.create_task(worker.run()), chain)
        self.running.append(running)
        if own:
            await until(lambda: set(services) <= set(worker.owned), what="the worker owns its lanes")
        return running

    async def close(self) -> None:
        for running in self.running:
            if not running.task.done():
                await running.crash()
        await self.ledger.close()

    def pool_of(self, account: Account) -> str:
        """The stage's own lane is alone in `POOL`; every other account is a pool of its own."""
        return POOL if account is self.account else str(account["account_id"])

    # -- intents

    def transfer(self, key: str, amount: int = 1, pool: str = POOL, **more: Any) -> Intent:
        payload = {"receiver_id": self.receiver["account_id"], "amount": str(amount)}
        return new_intent(key=key, pool=pool, kind="near.transfer", payload=payload, **more)

    def transfers(self, count: int, first: int = 1) -> list[Intent]:
        """Each of another amount, so that the chain tells them apart."""
        return [self.transfer(f"k{n}", n) for n in range(first, first + count)]

    async def submit(self, *intents: Intent) -> list[IntentId]:
        for answer in await self.producer.submit_many(list(intents)):
            if isinstance(answer, Exception):
                raise answer
        return [i.id for i in intents]

    async def read(self, id: IntentId | str) -> Record:
        record = await self.ledger.read(intent_id(id, POOL) if isinstance(id, str) else id)
        assert record is not None
        return record

    async def finals(self, ids: Sequence[IntentId], timeout: float = 20) -> list[Record]:
        """The records, all final, in the given order."""
        open_ids = list(ids)

        async def all_final() -> bool:
            nonlocal open_ids
            open_ids = [i for i in open_ids if not (await self.read(i)).status.final]
            return not open_ids

        await until(all_final, timeout, every=0.05, what=f"the intents end ({len(ids)} of them)")
        return [await self.read(i) for i in ids]

    async def done(self, ids: Sequence[IntentId], timeout: float = 20) -> list[Record]:
        records = await self.finals(ids, timeout)
        assert [r.status for r in records] == [Status.DONE] * len(records), records
        return records

    async def until_status(self, id: IntentId | str, status: Status, timeout: float = 15) -> Record:
        async def reached() -> Record | None:
            record = await self.read(id)
            return record if record.status is status else None

        found = await until(reached, timeout, what=f"{id} is {status}")
        assert found is not None
        return found

    async def until_lane(self, state: LaneState, lane: str | None = None, timeout: float = 15) -> Lane:
        async def reached() -> Lane | None:
            view = await self.ledger.lane(lane or self.lane)
            return view if view is not None and view.state is state else None

        found = await until(reached, timeout, what=f"the lane is {state}")
        assert found is not None
        return found

    # -- the chain

    def landed(self, account: Account | None = None) -> list[Transfer]:
        """Every final transfer this account's key made since the stage was set, in the order of the chain."""
        head = int(self.devnet.head("final")["height"])
        for height in range(self._scanned + 1, head + 1):
            answer = self.devnet.post("chunk", {"block_id": height, "shard_id": 0}).json()
            if "error" in answer:
                assert answer["error"]["cause"]["name"] == "UNKNOWN_BLOCK", answer
                continue  # a height that a reorganisation left without a block
            for tx in answer["result"]["transactions"]:
                [action] = tx["actions"]
                amount = int(action["Transfer"]["deposit"]) if "Transfer" in action else -1
                made = Transfer(int(tx["nonce"]), tx["receiver_id"], amount, tx["hash"])
                self._found.append((tx["signer_id"], tx["public_key"], made))
        self._scanned = head
        whose = account or self.account
        return [t for who, key, t in self._found if (who, key) == (whose["account_id"], whose["public_key"])]

    def amounts(self, account: Account | None = None) -> list[int]:
        """What was really paid, in the order of the chain; no-ops and strangers' transactions pay 0."""
        return [t.amount for t in self.landed(account) if t.amount != 0]


def metric(worker: Worker, name: str, **labels: str) -> float:
    """The sum of a metric over all its other labels."""
    total = 0.0
    for family in worker.metrics.registry.collect():
        for sample in family.samples:
            if sample.name == f"txmanager_{name}" and labels.items() <= sample.labels.items():
                total += sample.value
    return total


class Counting:
    """A ledger that counts the calls of each operation on their way through."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.counts: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def counted(*args: Any, **more: Any) -> Any:
            self.counts[name] += 1
            return await found(*args, **more)

        return counted
