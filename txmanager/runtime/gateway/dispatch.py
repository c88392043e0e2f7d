"""Sends what the mempool grants, one transaction of a sender at a time, and says what came of it.

A crash at any point leaves a hold that runs out; another instance then sends the same bytes. Where repeats are charged
(`strict`), bytes that somebody may have sent before are looked up for `lag_ms` first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from txmanager.core.admission import Count, Grant, Mempool, Verdict
from txmanager.core.after_send import Fate, after_send
from txmanager.core.chain import SendReply
from txmanager.core.chain import Verdict as NodeVerdict
from txmanager.core.errors import TxManagerError, Unavailable
from txmanager.core.upstream import Seen, Upstream
from txmanager.runtime.gateway import words
from txmanager.runtime.gateway.heart import Heart, Hold
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.gateway.outcomes import Outcomes
from txmanager.runtime.gateway.sends import Sends

_LOOK_EVERY_S = 0.25
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 100, 5_000
_DONE_TRIES = 5
_GAPS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Rules:
    strict: bool
    lag_ms: int = 6_000
    poll_ms: int = 50
    executors: int = 64
    gaps_wait: bool = True
    """False: what the node calls a gap is refused; its caller sends it again when the gap is filled."""
    detail: bool = False
    """Each grant and each wake-up is logged, too."""


def as_count(seen: Seen, pending: int = 0, orphaned: str = "") -> Count:
    return Count(seen.count, seen.block_hash, seen.height, max(seen.pending or 0, pending), orphaned)


class Dispatcher:
    def __init__(
        self,
        mempool: Mempool,
        upstream: Upstream,
        sends: Sends,
        heart: Heart,
        rules: Rules,
        metrics: GatewayMetrics,
        outcomes: Outcomes,
        now: Callable[[], float],
    ) -> None:
        self._mempool = mempool
        self._upstream = upstream
        self._sends = sends
        self._heart = heart
        self._rules = rules
        self._metrics = metrics
        self._outcomes = outcomes
        self._now = now
        self._chain = str(upstream.chain_id)
        self._held = metrics.held.labels(self._chain)  # finding one by its labels is dear
        self._hold_s, self._wait_s = metrics.hold_s.labels(self._chain), metrics.wait_s.labels(self._chain)
        self._sending: set[asyncio.Task[None]] = set()
        self._gaps: OrderedDict[str, None] = OrderedDict()
        """Hashes that a strict node called a gap, and charged for."""
        self._stopping = False
        self._rung = asyncio.Event()
        self._log = structlog.get_logger("gateway")

    @property
    def busy(self) -> int:
        return len(self._sending)

    def start(self, grant: Grant, called_at: float) -> None:
        """Carry a grant out, and those that follow from it."""
        if self._rules.detail:
            self._log.debug("granted", sender=grant.sender, nonce=grant.nonce, fence=grant.fence)
        task = asyncio.create_task(self._carry_out(self._heart.hold(grant, called_at)))
        self._sending.add(task)
        self._held.set(len(self._sending))
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._held.set(len(self._sending))
        self._rung.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error(
                "a send broke; its hold runs out and somebody sends the same bytes", error=repr(error)[:300]
            )

    # -- taking

    async def run(self) -> None:
        while True:
            pause_s = 1.0
            free = self._rules.executors - len(self._sending)
            if free > 0 and self._heart.alive:
                try:
                    pause_s = await self._take(free)
                except TxManagerError as error:
                    self._log.debug("nothing taken", error=str(error))
            self._rung.clear()
            await self._until_rung(pause_s)

    async def _take(self, most: int) -> float:
        """Seconds until it is worth asking again."""
        called_at = self._now()
        taken = await self._mempool.take(self._heart.owner, most)
        if taken.forced:
            self._metrics.forced.labels(self._chain).inc(taken.forced)
            self._log.warning("holds taken over from a late or dead holder", count=taken.forced)
        for grant in taken.grants:
            self.start(grant, called_at)
        if len(taken.grants) == most:
            return 0.0
        longest = 1.0 if taken.next_ms is None else taken.next_ms / 1000
        return min(1.0, max(longest, self._rules.poll_ms / 1000))

    async def _until_rung(self, timeout_s: float) -> None:
        if timeout_s <= 0:
            return
        waits = [
            asyncio.create_task(self._mempool.wait_ready(timeout_s)),
            asyncio.create_task(self._rung.wait()),
        ]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if waits[0].done() and not waits[0].cancelled() and waits[0].exception() is not None:
                await asyncio.sleep(min(timeout_s, 0.2))
            elif self._rules.detail and any(wait.done() for wait in waits):
                self._log.debug("woken")
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # -- sending

    async def _carry_out(self, first: Hold) -> None:
        hold: Hold | None = first
        while hold is not None:
            grant = hold.grant
            self._wait_s.observe(grant.waited_ms / 1000)
            self._log.debug(
                "hold taken",
                sender=grant.sender,
                nonce=grant.nonce,
                tries=grant.tries,
                again=grant.again,
                waited_ms=grant.waited_ms,
                waiting=grant.waiting,
            )
            again = grant.again or self._sends.may_be_sent(grant.hash)
            reply = await self._send(hold, again)
            hold = None if reply is None else await self._report(grant, reply, again)

    async def _send(self, hold: Hold, again: bool) -> SendReply | None:
        """The node's answer; None when the hold is over and somebody else goes on."""
        grant = hold.grant
        if again:
            self._metrics.repeats.labels(self._chain).inc()
        if again and self._rules.strict:
            found = await self._look_up(hold, self._rules.lag_ms / 1000)
            if found is not None:
                return found
        if grant.hash in self._gaps and not await self._gap_filled(grant):
            return SendReply(NodeVerdict.BUSY, "not sent: the node called it a gap, and its count still says so")
        if not self._heart.may_send(hold):
            return None
        left_s = self._heart.left_s(hold)
        try:
            async with asyncio.timeout(left_s):
                reply = await self._sends.send(
                    grant.sender,
                    grant.nonce,
                    grant.raw,
                    grant.hash,
                    lambda: self._heart.may_send(hold),
                    again=again,
                )
        except TimeoutError:
            return SendReply(NodeVerdict.UNAVAILABLE, "no answer while the hold lasted")
        if reply.verdict is NodeVerdict.NONCE_TOO_LOW:
            return await self._was_it_ours(hold, reply)
        if reply.verdict is NodeVerdict.NONCE_GAP:
            await self._refresh(grant.sender)
            if self._rules.strict and self._rules.gaps_wait:
                self._gaps[grant.hash] = None
                if len(self._gaps) > _GAPS_REMEMBERED:
                    self._gaps.popitem(last=False)
        return reply

    async def _gap_filled(self, grant: Grant) -> bool:
        """A strict node charges for each gap: such bytes go again only when the chain counts what is below them."""
        seen = await self._refresh(grant.sender)
        if seen is None or seen.count < grant.nonce:
            return False
        self._gaps.pop(grant.hash, None)
        return True

    async def _look_up(self, hold: Hold, for_s: float) -> SendReply | None:
        """None when the chain does not have it, asked for some time: a node that lags shows late what it took. Without
        an answer nobody knows, and nothing may be sent."""
        grant, until = hold.grant, self._now() + for_s
        while self._heart.may_send(hold):
            seen = await self._refresh(grant.sender)
            [found] = await self._upstream.find([grant.hash])  # after the count: what it counts can be found by now
            if found is not None and found.known:
                return SendReply(NodeVerdict.ALREADY_KNOWN)
            if found is not None and seen is not None:
                if seen.count > grant.nonce:
                    said = words.nonce_too_low(seen.count, grant.nonce)
                    return SendReply(NodeVerdict.NONCE_TOO_LOW, said, reached=True)
                if self._now() >= until:
                    return None
            left_s = until - self._now()
            await asyncio.sleep(min(_LOOK_EVERY_S, max(0.01, left_s)) if left_s > 0 else _LOOK_EVERY_S)
        return SendReply(NodeVerdict.UNKNOWN, "the hold was over before the look-up was")

    async def _was_it_ours(self, hold: Hold, said: SendReply) -> SendReply:
        """`nonce too low` comes when these bytes landed, and when others did."""
        found = await self._look_up(hold, self._rules.lag_ms / 1000 if self._rules.strict else 0.0)
        if found is not None and found.verdict is not NodeVerdict.NONCE_TOO_LOW:
            return found
        return SendReply(said.verdict, said.message, reached=found is not None)

    async def _refresh(self, sender: str) -> Seen | None:
        with suppress(Unavailable):
            seen = await self._upstream.look(sender)
            await self._mempool.observe({sender: as_count(seen)})
            return seen
        return None

    async def _report(self, grant: Grant, reply: SendReply, again: bool) -> Hold | None:
        """Tell the store; answers the next thing to send."""
        fate = after_send(reply)
        self._metrics.sends.labels(self._chain, fate).inc()
        verdict, message = _verdict(fate, reply, again)
        if reply.verdict is NodeVerdict.NONCE_GAP and not self._rules.gaps_wait:
            verdict, message = "refuse", words.refused_by_node(reply)
        if verdict == "refuse":
            self._metrics.ended.labels(self._chain, "refused").inc()
        if verdict in ("sent", "refuse"):
            self._outcomes.tell(grant.hash, message if verdict == "refuse" else None)
        for attempt in range(_DONE_TRIES):
            called_at = self._now()
            try:
                done = await self._mempool.done(
                    grant,
                    verdict,
                    owner=self._heart.owner,
                    message=message,
                    code=reply.verdict,
                    wait_ms=pause_ms(grant.tries) if verdict in ("retry", "maybe") else 0,
                    more=not self._stopping,
                )
            except Unavailable:
                await asyncio.sleep(0.1 * 2**attempt)
                continue
            self._hold_s.observe(done.held_ms / 1000)
            self._log.debug(
                "hold released",
                sender=grant.sender,
                nonce=grant.nonce,
                verdict=verdict,
                held_ms=done.held_ms,
                waiting=done.waiting,
            )
            return self._heart.hold(done.grant, called_at) if done.grant is not None else None
        return None

    async def stop(self) -> None:
        """What is being sent is finished and reported; nothing new begins."""
        self._stopping = True
        if self._sending:
            await asyncio.wait(self._sending, timeout=10.0)
        for task in self._sending:
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)


def pause_ms(tries: int) -> int:
    return min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS << min(tries - 1, 10))


def _verdict(fate: Fate, reply: SendReply, again: bool) -> tuple[Verdict, str]:
    if reply.verdict is NodeVerdict.NONCE_TOO_LOW and not again:
        # Nobody sent these bytes before, and the chain does not know them: others used the nonce.
        return "refuse", words.refused_by_node(reply)
    if fate is Fate.SENT:
        return "sent", ""
    if fate is Fate.REFUSE:
        return "refuse", words.refused_by_node(reply)
    return ("retry" if fate is Fate.RETRY and not again else "maybe"), reply.message[:200]
