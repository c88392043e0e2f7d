"""Delivers the lanes' events to webhook targets: signed, at least once, in order per intent, with a memory.

The place is moved behind a page only when each of its events was taken or buried, so a crash repeats a page and loses
nothing. What a target does not take in time becomes a dead letter; an operator revives it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import orjson
import structlog

from txmanager.core.errors import TxManagerError
from txmanager.core.ledger import LaneRegistry
from txmanager.core.mailbox import DeadLetter, Mailbox
from txmanager.core.models import Event, IntentId, Json, Record
from txmanager.core.positions import START
from txmanager.core.states import Status
from txmanager.core.trace import Tracer
from txmanager.runtime.deliver.events import event_json

_PAGE = 100
_ABREAST = 8
_HOLD_MS = 15_000
_WHOLE_S = 60.0
"""Lanes are parked after ten minutes at the soonest: a round that was made within this time saw all that left since."""
_MIN_TRIES = 3
_PAUSE_S, _MOST_PAUSE_S = 0.5, 60.0


class Post(Protocol):
    async def post(self, body: bytes, headers: Mapping[str, str]) -> int: ...


@dataclass(frozen=True, slots=True)
class Target:
    """Where a pool's events go. Its name is what is remembered: the URL and the secret may change."""

    pool: str
    name: str
    post: Post
    secret: bytes
    statuses: frozenset[Status]
    retry_for_s: float = 3600.0
    tenants: frozenset[str] | None = None
    """Whose events it gets; None for everybody's."""

    def wants(self, event: Event) -> bool:
        return event.status in self.statuses and (self.tenants is None or event.intent.tenant in self.tenants)

    @property
    def id(self) -> str:
        return f"{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Round:
    """A target's lanes, when a round over them began."""

    began: float = float("-inf")
    lanes: frozenset[str] = frozenset()
    late: set[str] = field(default_factory=set)
    """Lanes that left the registry, and may have events that were not told yet."""


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """`t=seconds,v1=hex`: HMAC-SHA256 over the time, a dot and the body."""
    mac = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={mac}"


class Webhooks:
    def __init__(
        self,
        ledger: LaneRegistry,
        mailbox: Mailbox,
        targets: Sequence[Target],
        *,
        poll_s: float = 0.25,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        rng: random.Random | None = None,
        tracer: Tracer | None = None,
        read: Callable[[IntentId], Awaitable[Record | None]] | None = None,
    ) -> None:
        """With `tracer` and `read`, each delivery joins the trace of its intent, which `read` finds."""
        self._ledger = ledger
        self._mailbox = mailbox
        self._targets = targets
        self._poll_s = poll_s
        self._clock = clock
        self._rng = rng or random.Random()
        self._tracer = tracer
        self._read = read
        self._name = f"webhooks-{secrets.token_hex(4)}"
        self._rounds: dict[str, _Round] = {}
        self._stopping = asyncio.Event()
        self._log = structlog.get_logger("webhooks").bind(deliverer=self._name)

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        if not self._targets:
            self._log.warning("no pool has webhooks; nothing to deliver")
            await self._stopping.wait()
        await asyncio.gather(*(self._serve(target) for target in self._targets))

    async def _serve(self, target: Target) -> None:
        """One target: hold it, deliver, remember; whatever fails is tried again."""
        while not self._stopping.is_set():
            try:
                if not await self._mailbox.hold(target.id, self._name, _HOLD_MS):
                    self._rounds.pop(target.id, None)
                    await self._nap(_HOLD_MS / 3000)
                    continue
                if not await self._deliver_all(target):
                    await self._nap(self._poll_s)
            except TxManagerError as error:
                self._log.warning("cannot deliver now", target=target.id, error=str(error))
                await self._nap(1.0)
        await self._mailbox.hold(target.id, self._name, 1)  # another may go on at once

    async def _deliver_all(self, target: Target) -> bool:
        """One round over the pool's lanes and the revived letters; whether there was anything."""
        places = await self._mailbox.places(target.id)
        worked = False
        for lane in await self._lanes(target):
            events = await self._ledger.events(lane, places.get(lane, START), _PAGE)
            if events:
                worked = True
                await self._deliver_page(target, [e for e in events if target.wants(e)])
                if self._stopping.is_set():
                    return True
                await self._mailbox.advance(target.id, lane, events[-1].id)
            if len(events) < _PAGE:
                self._rounds[target.id].late.discard(lane)
        for letter in await self._mailbox.revived(target.id):
            worked = True
            await self._deliver_again(target, letter)
        return worked

    async def _lanes(self, target: Target) -> list[str]:
        """Those of the pool; and those that left the registry, until nothing of them waits to be told."""
        now, before = asyncio.get_running_loop().time(), self._rounds.get(target.id, _Round())
        lanes = [route.lane for route in await self._ledger.routes() if route.pool == target.pool]
        late = before.late | before.lanes
        if now - before.began > _WHOLE_S:
            late |= {route.lane for route in await self._ledger.parked() if route.pool == target.pool}
        late = late.difference(lanes)
        self._rounds[target.id] = _Round(now, frozenset(lanes), late)
        return [*lanes, *late]

    async def _deliver_page(self, target: Target, events: Sequence[Event]) -> None:
        """Events of one intent one after the other, intents abreast; the hold is renewed meanwhile."""
        by_intent: dict[str, list[Event]] = {}
        for event in events:
            by_intent.setdefault(str(event.intent), []).append(event)
        abreast = asyncio.Semaphore(_ABREAST)

        async def one(group: Sequence[Event]) -> None:
            async with abreast:
                for event in group:
                    await self._deliver(target, event)

        holding = asyncio.create_task(self._keep_holding(target))
        try:
            async with asyncio.TaskGroup() as tasks:
                for group in by_intent.values():
                    tasks.create_task(one(group))
        except* TxManagerError as failed:
            raise failed.exceptions[0] from None
        finally:
            holding.cancel()

    async def _keep_holding(self, target: Target) -> None:
        while True:
            await asyncio.sleep(_HOLD_MS / 3000)
            try:
                await self._mailbox.hold(target.id, self._name, _HOLD_MS)
            except TxManagerError as error:
                self._log.warning("cannot renew", target=target.id, error=str(error))

    async def _deliver(self, target: Target, event: Event) -> None:
        """Until it is taken, or for `retry_for_s` of the event's life; a stop leaves it to the next deliverer."""
        body = event_json(event, tenant=True)
        until = event.at + int(target.retry_for_s * 1000)
        trace = await self._trace_of(event.intent)
        tries, pause_s = 0, _PAUSE_S
        while not self._stopping.is_set():
            tries += 1
            problem = await self._try(target, body, tries, trace)
            if problem is None:
                return
            if tries >= _MIN_TRIES and self._clock() >= until:
                await self._bury(target, str(body["id"]), body, tries, problem)
                return
            await self._nap(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(_MOST_PAUSE_S, pause_s * 2)

    async def _deliver_again(self, target: Target, letter: DeadLetter) -> None:
        problem = await self._try(target, letter.event, letter.tries + 1)
        if problem is None:
            await self._mailbox.delivered(letter.id)
        else:
            again = replace(letter, tries=letter.tries + 1, error=problem, at=self._clock())
            await self._mailbox.bury(again)

    async def _trace_of(self, id: IntentId) -> str:
        if self._tracer is None or self._read is None:
            return ""
        record = await self._read(id)
        return "" if record is None else record.intent.trace

    async def _try(self, target: Target, event: Mapping[str, Json], tries: int, trace: str = "") -> str | None:
        """Why it was not taken, or None."""
        began = self._clock()
        problem = await self._post(target, event, tries, trace)
        if self._tracer is not None and trace:
            texts = {"target": target.id, "event": str(event["id"]), "status": str(event["status"])}
            facts: dict[str, str | int] = {**texts, "try": tries}
            self._tracer.span(trace, "webhook", began, self._clock(), facts, failed=problem or "", remote=True)
        return problem

    async def _post(self, target: Target, event: Mapping[str, Json], tries: int, trace: str) -> str | None:
        body = orjson.dumps(event)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "txmanager",
            "Txmanager-Event": str(event["id"]),
            "Txmanager-Attempt": str(tries),
            "Txmanager-Signature": sign(target.secret, body, self._clock() // 1000),
        }
        if trace:
            headers["traceparent"] = trace
        try:
            status = await target.post.post(body, headers)
        except TxManagerError as error:
            return str(error)
        return None if 200 <= status < 300 else f"answered {status}"

    async def _bury(self, target: Target, id: str, event: Mapping[str, Json], tries: int, problem: str) -> None:
        self._log.warning("webhook given up", target=target.id, event_id=id, tries=tries, problem=problem)
        letter = DeadLetter(f"{id}.{target.name}", target.pool, target.id, event, tries, problem, self._clock())
        await self._mailbox.bury(letter)

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass
