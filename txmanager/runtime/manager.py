"""`TxManager`: the door for callers: submit, read, wait, cancel, lanes; with services it also runs the lanes itself.
API and commands go through it and never past it.

    async with TxManager(ledger, services) as manager:
        outcome = await manager.execute("payouts", key, kind="near.transfer", payload={...})

Waiting is built on reading: a hint wakes a waiter, a read answers it, and a lost hint costs a few seconds at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from txmanager.core.archive import ArchiveReader
from txmanager.core.audit import Audits
from txmanager.core.budgets import Bill, Budgets
from txmanager.core.chain import Chain
from txmanager.core.errors import InvalidInput, NotAllowed, NotFound, Outdated, TxManagerError, Unavailable
from txmanager.core.ledger import Ledger, Member
from txmanager.core.listing import Receivers
from txmanager.core.mailbox import Mailbox
from txmanager.core.models import Intent, IntentId, Json, Lane, Outcome, Record, intent_id, new_intent
from txmanager.core.quotas import Quotas, Share
from txmanager.core.reservations import Book, Reservation
from txmanager.core.seal import BAD_SEAL, Seals
from txmanager.core.sessions import Sessions
from txmanager.core.states import LaneState, Status
from txmanager.core.stops import LaneCommand, PauseCause, words_of
from txmanager.runtime.accept.addresses import Addresses
from txmanager.runtime.accept.built import BUILD_WITHIN_S, KIND, Build, Builders
from txmanager.runtime.accept.dry_run import DryRun, OpenChain
from txmanager.runtime.accept.nonces import NonceDesk, Nonces
from txmanager.runtime.accept.producer import Producer, Submitted
from txmanager.runtime.care.replay import Replay, plan_replay
from txmanager.runtime.deliver.board import Board
from txmanager.runtime.deliver.events import EventHub
from txmanager.runtime.history import History
from txmanager.runtime.lane.worker import Service, Timing, Worker

_REREAD_S = 5.0
VERBS = ("track", "settle", "kill", "resign", "fail")


class TxManager:
    def __init__(
        self,
        ledger: Ledger,
        services: Mapping[str, Service] | None = None,
        *,
        timing: Timing | None = None,
        seals: Seals | None = None,
        archive: ArchiveReader | None = None,
    ) -> None:
        self.ledger = ledger
        self.archive = archive
        self.producer = Producer(ledger, seals=seals)
        self._seals = seals
        self._services = dict(services or {})
        self._builders = Builders()
        self.worker = (
            Worker(ledger, services, timing=timing, builders=self._builders, seals=seals) if services else None
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self.worker is not None:
            self._task = asyncio.create_task(self.worker.run())
            while not self.worker.ready:
                if self._task.done():
                    await self._task
                await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.worker is not None and self._task is not None:
            self.worker.stop()
            await self._task

    # -- parts for surfaces (an API, a command)

    @property
    def audits(self) -> Audits:
        return self.ledger

    @property
    def quotas(self) -> Quotas:
        return self.ledger

    @property
    def budgets(self) -> Budgets:
        return self.ledger

    @property
    def sessions(self) -> Sessions:
        return self.ledger

    @property
    def mailbox(self) -> Mailbox:
        return self.ledger.mailbox

    def events(self) -> EventHub:
        """Who follows intents and pools; close it at the end."""
        return EventHub(self.ledger)

    def history(self, receivers: Receivers) -> History:
        """The list of intents; `receivers` reads whom a payload acts on."""
        return History(self.ledger, receivers, self.archive)

    def board(self) -> Board:
        """Who watches all lanes at once; close it at the end."""
        return Board(self.ledger)

    def dry_run(self, open_chain: OpenChain | None = None) -> DryRun:
        """What acceptance would say; close it at the end."""
        return DryRun(self.ledger, self.producer, open_chain)

    def nonces(self, desks: Mapping[str, NonceDesk], patience_s: float) -> Nonces:
        return Nonces(self.ledger, self.producer, desks, patience_s)

    def addresses(self, nonces: Nonces) -> Addresses:
        return Addresses(self.ledger, nonces)

    # -- intents

    async def submit(self, intent: Intent) -> Submitted:
        """Durably accept an intent, or answer with what its key already stands for."""
        return await self.producer.submit(intent)

    async def submit_many(
        self,
        intents: Sequence[Intent],
        *,
        lane: str = "",
        shares: Sequence[Share | None] = (),
        bills: Sequence[Bill | None] = (),
        one_caller: bool = False,
    ) -> list[Submitted | TxManagerError]:
        """Each intent has its own result; with `lane`, new ones go to that lane of their pool and to no other."""
        return await self.producer.submit_many(intents, lane=lane, shares=shares, bills=bills, one_caller=one_caller)

    async def replay(self, intent: Intent) -> Submitted | None:
        """What stands for its key, if that was accepted with the same payload."""
        return await self.producer.replay(intent)

    async def alias(self, id: IntentId, fingerprint: str, target: IntentId) -> None:
        """Bind a caller's own key to the key that its payload implies, before that one is submitted."""
        await self.producer.alias(id, fingerprint, target)

    async def read(self, id: IntentId) -> Record | None:
        return await self.ledger.read(id)

    async def get(self, pool: str, key: str, tenant: str = "default") -> Record:
        record = await self.read(intent_id(key, pool, tenant))
        if record is None:
            raise NotFound(
                f"no intent {key!r} in pool {pool!r}; it was never accepted, or its retention time has passed"
            )
        return record

    async def wait(self, pool: str, key: str, timeout_s: float, tenant: str = "default") -> Record:
        """The record once it is final, or as it stands when the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while True:
            record = await self.get(pool, key, tenant)
            left = until - loop.time()
            if record.status.final or left <= 0:
                return record
            told = await self.ledger.wait_final(record.lane, record.id, min(left, _REREAD_S))
            if told is not None and told.life == record.life:
                return told

    async def execute(
        self,
        pool: str,
        idempotency_key: str,
        *,
        kind: str,
        payload: Mapping[str, Json],
        timeout_s: float = 60.0,
        **more: Json,
    ) -> Outcome:
        """Submit and wait for the outcome; a retry with the same key gets the same one, from any process."""
        intent = new_intent(key=idempotency_key, pool=pool, kind=kind, payload=payload, **more)
        submitted = await self.submit(intent)
        record = submitted.record
        if not record.status.final:
            record = await self.wait(pool, idempotency_key, timeout_s, intent.id.tenant)
        if record.outcome is None:
            raise Unavailable(
                f"intent {idempotency_key!r} is {record.status} after {timeout_s:g} s; it goes on, ask again"
            )
        return record.outcome

    async def execute_built(
        self,
        lane: str,
        idempotency_key: str,
        build: Build,
        *,
        build_within_s: float = BUILD_WITHIN_S,
        timeout_s: float = 60.0,
        tenant: str = "default",
    ) -> Outcome:
        """Let `build` make the transaction once its nonce is known; only in the process that runs the lane.

        A retry with the same key gets the stored outcome and never asks `build` again. The key stands for the call,
        not for what is built: another `build` under the same key is not noticed.
        """
        service = self._services.get(lane)
        if service is None:
            raise NotAllowed(f"lane {lane} is not run by this process; execute_built needs its key and its worker here")
        intent = new_intent(
            key=idempotency_key,
            pool=service.spec.pool,
            kind=KIND,
            payload={"lane": lane},
            tenant=tenant,
            metadata={"build_within_s": build_within_s},
        )
        self._builders.add(intent.id, build)
        try:
            [submitted] = await self.producer.submit_many([intent], lane=lane)
            if isinstance(submitted, TxManagerError):
                raise submitted
            record = await self.wait(service.spec.pool, idempotency_key, timeout_s, tenant)
        finally:
            self._builders.remove(intent.id)
        if record.outcome is None:
            raise Unavailable(f"intent {idempotency_key!r} is {record.status} after {timeout_s:g} s; ask again")
        return record.outcome

    async def cancel(self, id: IntentId) -> Record:
        return await self.ledger.cancel(id)

    async def resolve(
        self, id: IntentId, verb: str, by: str, *, tx_hash: str | None = None, force: bool = False
    ) -> Record:
        """An operator's word on a held intent; the lane's owner carries it out, with the proof it needs.

        `force` ends or signs again *without* that proof: the old bytes may still land, and then the effect is there
        twice. The record names who asked, for ever.
        """
        if verb not in VERBS:
            raise InvalidInput("verb", f"must be one of {', '.join(VERBS)}, not {verb!r}")
        if force and verb not in ("resign", "fail"):
            raise InvalidInput("force", "only resign and fail can be forced; the others need no proof")
        directive: dict[str, Json] = {"verb": verb, "by": by}
        if force:
            directive["force"] = True
        if verb == "settle":
            record = await self.get(id.pool, id.key, id.tenant)
            hashes = [attempt.hash for attempt in record.effects]
            if tx_hash not in hashes:
                raise NotAllowed(f"{tx_hash} is none of the intent's transactions ({', '.join(hashes) or 'none'})")
            directive["hash"] = tx_hash
        return await self.ledger.resolve(id, directive)

    async def reseal(self, id: IntentId) -> Record:
        """Seal a held intent as it stands now: whoever asks vouches for every word of it. What was set aside goes to
        the end of its lane's queue; what was signed before is in flight again."""
        if self._seals is None:
            raise NotAllowed("there is no ledger.seal in this configuration; reseal with the one that the workers have")
        record = await self.get(id.pool, id.key, id.tenant)
        if record.status is not Status.HELD or (record.hold or {}).get("reason") != BAD_SEAL:
            raise NotAllowed(f"intent {id.key!r} is {record.status} and not held for its seal; there is nothing to do")
        seal = self._seals.seal(record.intent, record.life, record.lane)
        done = await self.ledger.reseal(record, seal)
        record = await self.get(id.pool, id.key, id.tenant)
        if not done and record.seal != seal:
            raise NotAllowed(f"intent {id.key!r} is {record.status} meanwhile; nothing was sealed")
        return record

    # -- lanes

    async def lanes(self, pool: str | None = None) -> list[Lane]:
        return await self.ledger.lanes(pool)

    async def lane(self, lane: str) -> Lane | None:
        return await self.ledger.lane(lane)

    async def members(self) -> list[Member]:
        """The workers that are alive."""
        return await self.ledger.members()

    async def book(self, lane: str) -> Book:
        """The numbers of a keyless lane."""
        return await self.ledger.book(lane)

    async def pause(self, lane: str, reason: str) -> Lane:
        return await self.ledger.set_lane(lane, LaneState.PAUSED, reason or words_of(PauseCause.OPERATOR))

    async def resume(self, lane: str) -> Lane:
        """A lane whose signer gave a wrong signature goes on after a trial signature that verifies. What stops it
        between the reading and the write is read as well."""
        while True:
            found = await self.ledger.lane(lane)
            asks = None if found is None else found.asks
            try:
                if found is None or not found.distrusts_signer:
                    return await self.ledger.set_lane(lane, LaneState.ACTIVE, asks=asks)
                command = LaneCommand.TRIAL
                return await self.ledger.set_lane(lane, LaneState.PAUSED, words_of(command), command=command, asks=asks)
            except Outdated:
                continue

    async def drain(self, lane: str) -> Lane:
        return await self.ledger.set_lane(lane, LaneState.DRAINING, "drained by an operator")

    async def close_lane(self, lane: str) -> Lane:
        return await self.ledger.set_lane(lane, LaneState.CLOSED, "closed by an operator")

    async def rebaseline(self, lane: str, *, paused: bool = False) -> Lane:
        """The operator vouches for what happened: the owner goes on from the chain's nonce. With `paused` it signs
        nothing new before `resume`: time to cancel what is queued again although it was paid."""
        command = LaneCommand.REBASELINE_PAUSED if paused else LaneCommand.REBASELINE
        return await self.ledger.set_lane(lane, LaneState.PAUSED, words_of(command), command=command)

    async def plan_replay(self, lane: str, chain: Chain) -> Replay:
        """What a rollback past finality undid and can be sent again; `NotAllowed` for any other lane."""
        return await plan_replay(self.ledger, chain, lane)

    async def forget_lane(self, lane: str) -> None:
        """Delete a keyless lane without records, reserved numbers, and numbers that may have been sent."""
        await self.ledger.forget_lane(lane)

    async def release_number(
        self, lane: str, nonce: int, *, sees: Callable[[str], bool] = lambda _: True
    ) -> Reservation:
        """Take back a number that is reserved and was not sent; its holder's token is over."""
        found = [one for one in (await self.ledger.book(lane)).reserved if one.nonce == nonce and sees(one.tenant)]
        if not found:
            raise NotFound(f"number {nonce} of lane {lane} is reserved by nobody")
        [one] = found[:1]
        answer = await self.ledger.recycle(lane, one.token)
        if answer.word == "sent":
            raise NotAllowed(f"bytes at nonce {nonce} were accepted and may land: it is never handed out again")
        if answer.word == "over":
            raise NotAllowed(f"nonce {nonce} was given back or expired meanwhile; nothing changed")
        return one
