"""A worker of this process on a real node: submit, wait, and read the chain back without the code under test."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.evm.machines import Machine
from tests.waiting import until
from txmanager.chains.evm import EvmChain, EvmNetwork, LaneId
from txmanager.chains.evm.network import GWEI
from txmanager.core.decide import Policy
from txmanager.core.ledger import Ledger
from txmanager.core.models import Intent, Lane, LaneSpec, Record, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.lane.worker import Service, Timing, Worker
from txmanager.runtime.manager import TxManager
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret

CHAIN_ID = 31337
POOL = "p"
TIMING = Timing(lease_ms=1500, margin_ms=300, poll_s=0.05, grace_s=5.0)
NETWORK = EvmNetwork(finality=1, max_fee=10_000 * GWEI, fees_fresh_s=0.0)
POLICY = Policy(window=16, include_within_ms=500, replace_after_ms=1_500)
PATIENT = Policy(window=16, include_within_ms=500, replace_after_ms=3_600_000)
REVERTS = "0x60006000fd"
"""Init code that reverts: a contract's creation that cannot succeed."""


def new_signer() -> EvmSigner:
    return EvmSigner(Secret(secrets.token_bytes(32)))


def lane_of(signer: EvmSigner, chain_id: int = CHAIN_ID) -> str:
    return str(LaneId(chain_id, signer.address))


@dataclass
class Stage:
    machine: Machine
    signers: Sequence[EvmSigner]
    urls: Sequence[str] = ()
    network: EvmNetwork = NETWORK
    policy: Policy = POLICY
    ledger: Ledger = field(default_factory=MemoryLedger)
    pools: dict[int, str] = field(default_factory=dict)
    """Pools of signers that have another one, by their place."""

    def __post_init__(self) -> None:
        for signer in self.signers:
            self.machine.fund(signer.address)
        self.receiver = new_signer().address
        self.manager = TxManager(self.ledger)
        self.worker: Worker | None = None
        self.chain: EvmChain | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def signer(self) -> EvmSigner:
        return self.signers[0]

    @property
    def lane_id(self) -> str:
        return self._lane(self.signer)

    def _lane(self, signer: EvmSigner) -> str:
        return lane_of(signer, self.machine.chain_id)

    def make_chain(self) -> EvmChain:
        endpoints = [Endpoint(url, direct=True, timeout_s=2.0) for url in self.urls or [self.machine.url]]
        signers = {self._lane(s): s for s in self.signers}
        return EvmChain(self.machine.chain_id, endpoints, signers, settings=self.network, rng=random.Random(1))

    async def __aenter__(self) -> Stage:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.crash()

    async def start(self, **more: Any) -> None:
        self.chain = self.make_chain()
        specs = [LaneSpec(self._lane(s), self.pools.get(n, POOL)) for n, s in enumerate(self.signers)]
        services = {spec.id: Service(spec, self.chain, self.policy) for spec in specs}
        self.worker = Worker(self.ledger, services, timing=TIMING, **more)
        self._task = asyncio.create_task(self.worker.run())
        await until(lambda: set(services) <= set(self.worker.owned), 20.0, what="the worker owns its lanes")

    async def crash(self) -> None:
        """End at once, as a killed process would: no drain, no release."""
        if self._task is not None and self.chain is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self.chain.close()
        self._task = None

    # -- intents

    def transfer(self, key: str, value: int = 1, **more: Any) -> Intent:
        return self.intent(key, "evm.transfer", {"to": self.receiver, "value": str(value)}, **more)

    def intent(self, key: str, kind: str, payload: dict[str, Any], **more: Any) -> Intent:
        return new_intent(key=key, pool=POOL, kind=kind, payload=payload, **more)

    async def submit(self, *intents: Intent) -> None:
        for intent in intents:
            await self.manager.submit(intent)

    async def record(self, key: str) -> Record:
        return await self.manager.get(POOL, key)

    async def until_status(self, key: str, *statuses: Status, timeout: float = 20.0) -> Record:
        async def there() -> Record | None:
            record = await self.record(key)
            return record if record.status in statuses else None

        found = await until(there, timeout, what=f"{key} is {statuses}")
        assert found is not None
        return found

    async def until_done(self, *keys: str, timeout: float = 30.0) -> list[Record]:
        final = (Status.DONE, Status.FAILED, Status.CANCELLED)
        records = [await self.until_status(key, *final, timeout=timeout) for key in keys]
        assert [r.status for r in records] == [Status.DONE] * len(keys), [(r.id.key, r.outcome) for r in records]
        return records

    async def until_attempts(self, key: str, count: int, timeout: float = 20.0) -> Record:
        async def there() -> Record | None:
            record = await self.record(key)
            return record if len(record.attempts) >= count else None

        found = await until(there, timeout, what=f"{key} has {count} attempts")
        assert found is not None
        return found

    async def lane(self, lane: str | None = None) -> Lane:
        view = await self.ledger.lane(lane or self.lane_id)
        assert view is not None
        return view

    async def until_lane(self, state: LaneState, lane: str | None = None, timeout: float = 20.0) -> Lane:
        async def there() -> Lane | None:
            view = await self.lane(lane)
            return view if view.state is state else None

        found = await until(there, timeout, what=f"the lane is {state}")
        assert found is not None
        return found

    def received(self) -> int:
        return self.machine.balance(self.receiver)
