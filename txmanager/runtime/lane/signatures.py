"""A lane's signatures that are on their way: signers may take long, and nothing but the next signature waits for them.

A turn of the sender asks for a signature and gets `NotYet`; it goes on with everything else, and asks again when the
lane is woken. An answer counts only for the same question and for a while; late ones are discarded. Nothing is written
ahead here, so a crash loses signatures and no nonce.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from txmanager.core.errors import BadSignature, SignerFault, SignerRefused
from txmanager.core.states import LaneState
from txmanager.core.stops import PauseCause, QuarantineCause

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
PROBE_S = 5.0
"""How often a signer that refused is asked again."""
GOOD_FOR_S = 20.0
"""How long an answer waits for its turn. Older bytes may expire too soon, or be priced for another hour."""


class Slot(StrEnum):
    """What a signature is for; one of each is on its way at a time."""

    FIRST = "first attempts"
    ORDER = "a re-sign or a no-op"
    OUTBID = "a replacement"
    FILL = "no-ops at empty numbers"
    TRIAL = "a trial signature"


class NotYet(Exception):
    """The signature is on its way, or the signer is away: the lane is woken when it is worth asking again."""


@dataclass(slots=True)
class _Job:
    what: Hashable
    task: asyncio.Task[Any]
    began: float


class Signatures:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._jobs: dict[Slot, _Job] = {}
        self._away_since: float | None = None
        self._pause_s = 0.0
        self._not_before = 0.0

    @property
    def away_s(self) -> float:
        """For how long the signer has not answered."""
        return 0.0 if self._away_since is None else _now() - self._away_since

    def waits(self, slot: Slot) -> bool:
        """Whether asking now would answer `NotYet` in any case."""
        job = self._jobs.get(slot)
        return not job.task.done() if job is not None else _now() < self._not_before

    async def get(self, slot: Slot, what: Hashable, sign: Callable[[], Awaitable[T]], *, wait: bool = False) -> T:
        """What `sign` answers. A key in memory answers in this very call; otherwise `NotYet` until it is there."""
        lane = self._lane
        if lane.chain.instant(lane.id):
            return await lane.retry_while_leased(sign)
        job = self._jobs.get(slot)
        if job is not None and (job.what != what or _now() - job.began > GOOD_FOR_S):
            self._discard(slot)
            job = None
        if job is None:
            if _now() < self._not_before and not wait:
                raise NotYet
            job = self._start(slot, what, sign)
        if wait:
            await asyncio.wait([job.task])
        if not job.task.done():
            raise NotYet
        del self._jobs[slot]
        try:
            signed = cast("T", job.task.result())
        except SignerFault as fault:
            await self._failed(fault, slot)
            raise NotYet from fault
        self._answered()
        return signed

    def ask_now(self) -> None:
        """An operator says that the signer is mended."""
        self._not_before = 0.0

    async def probe(self) -> None:
        """While the lane waits for its signer: ask now and then, and go on when a trial signature verifies. A signature
        that was asked for before an operator's last word does not count."""
        lane = self._lane
        await self.get(Slot.TRIAL, lane.plan.stored.asks, lambda: lane.chain.trial(lane.id))
        if lane.plan.command is not None:
            await lane.checks.take_over()
        if lane.plan.tries_signer:
            await lane.resume("a trial signature verified")

    def close(self) -> None:
        for slot in list(self._jobs):
            self._discard(slot)

    # -- parts

    def _start(self, slot: Slot, what: Hashable, sign: Callable[[], Awaitable[T]]) -> _Job:
        lane = self._lane

        async def run() -> T:
            return await lane.retry_while_leased(sign)

        job = self._jobs[slot] = _Job(what, asyncio.create_task(run()), _now())
        job.task.add_done_callback(lambda _: lane.wake())
        return job

    def _discard(self, slot: Slot) -> None:
        job = self._jobs.pop(slot)
        job.task.cancel()
        # Its failure, if any, concerns a question that nobody asks any more.
        job.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _answered(self) -> None:
        if self._away_since is not None:
            self._lane.log.info("the signer answers again", away_s=round(self.away_s, 1))
            self._lane.context.metrics.stalled.labels(self._lane.id).set(0)
        self._away_since, self._pause_s, self._not_before = None, 0.0, 0.0

    async def _failed(self, fault: SignerFault, slot: Slot) -> None:
        """Nothing was signed, and no nonce is used. The lane shows why it stands still."""
        lane = self._lane
        evidence = {"message": str(fault), **({"trial": True} if slot is Slot.TRIAL else {})}
        lane.context.metrics.signer_faults.labels(lane.id, fault.code).inc()
        lane.log.warning("no signature", code=fault.code, error=str(fault))
        if isinstance(fault, BadSignature):
            await lane.quarantine(QuarantineCause.BAD_SIGNATURE, evidence)
            self._again_in(PROBE_S)
        elif isinstance(fault, SignerRefused):
            if lane.plan.command is not None:
                lane.plan.is_in(LaneState.ACTIVE)  # for a moment: only what works can be paused
            await lane.pause(PauseCause.SIGNER_REFUSED, evidence)
            self._again_in(PROBE_S)
        else:
            if self._away_since is None:
                self._away_since = _now()
            lane.context.metrics.stalled.labels(lane.id).set(1)
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2 or _FIRST_PAUSE_S)
            self._again_in(self._pause_s)

    def _again_in(self, seconds: float) -> None:
        self._not_before = _now() + seconds
        asyncio.get_running_loop().call_at(self._not_before, self._lane.wake)


def _now() -> float:
    return asyncio.get_running_loop().time()
