"""Uses up the numbers below a lane's cursor that belong to no intent (`core/gaps`): a no-op is written ahead for each,
sent, sent again and offered more for like any other bytes, until it is final or the number is used by something else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from txmanager.core.bounds import bounded
from txmanager.core.chain import NonceView
from txmanager.core.errors import Busy, KeyMissing, Refused, RolledBack, TxManagerError, Unavailable
from txmanager.core.gaps import fill_intent, fill_record
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, Record
from txmanager.runtime.lane.signatures import NotYet, Slot

if TYPE_CHECKING:
    from txmanager.runtime.lane.owner import OwnedLane

AT_MOST = 256
"""How many an operator's word fills at once; the next word fills the next ones."""
LOOK_EVERY_MS = 1_000


class GapFiller:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self._gaps = lane.plan.gaps
        self._looked_at = 0

    async def load(self) -> None:
        lane = self._lane
        if self._gaps.block:
            self._gaps.left(await lane.retry_while_leased(lambda: lane.context.ledger.fill(lane.fence)))

    # -- seeing

    def see(self, view: NonceView) -> None:
        """Compare the chain's next nonce with everything that is the lane's."""
        lane = self._lane
        if new := lane.plan.see_chain(view, lane.context.clock()):
            lane.log.warning("gap seen", nonces=[str(n) for n in new], chain_nonce=str(view.next_nonce))

    async def tend(self) -> bool:
        """Look again at what is empty or out; True when something is over. No answer changes nothing."""
        lane, gaps, now = self._lane, self._gaps, self._lane.context.clock()
        if not gaps or 0 <= now - self._looked_at < LOOK_EVERY_MS:
            return False
        self._looked_at = now
        try:
            over, landed = await self._over() if gaps.fills else ([], [])
            view = await lane.chain.nonce(lane.id)
        except (Unavailable, Busy, KeyMissing) as error:
            lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
            return False
        if over:
            names = [a.name for a in over]
            gaps.left(await lane.retry_while_leased(lambda: lane.context.ledger.fill(lane.fence, (), names, landed)))
            lane.log.info("gap closed", nonces=sorted({str(a.nonce) for a in over}))
        self.see(view)
        if lane.plan.gaps_due(now) or gaps.unsent(now):
            lane.work.set()
        return bool(over)

    async def _over(self) -> tuple[list[Attempt], list[Record]]:
        """Every no-op of a number that is used in a final block, by ours or by something else; and ours."""
        lane, fills = self._lane, self._gaps.fills
        pool = lane.plan.stored.spec.pool
        seen = await lane.chain.look_up(lane.id, [(fill_intent(pool, a), a) for a in fills])
        final = {a.nonce: (a, s.outcome) for a, s in zip(fills, seen, strict=True) if s.where == "final"}
        await lane.keep([Landed(a.nonce, a.hash, a.raw) for a, _ in final.values()])
        open_ones = [a for a, s in zip(fills, seen, strict=True) if a.nonce not in final and s.where == "unknown"]
        proofs = await lane.chain.prove_dead(lane.id, open_ones) if open_ones else []
        used = {*final, *(a.nonce for a, proof in zip(open_ones, proofs, strict=True) if proof is not None)}
        landed = [fill_record(pool, lane.id, a, bounded(o)) for a, o in final.values() if o is not None]
        return [a for a in self._gaps.fills if a.nonce in used], landed

    # -- filling: by the sender alone, but for an operator's re-baseline

    async def fill(self, nonces: Sequence[int], *, wait: bool = False) -> None:
        """Sign a no-op for each and write it ahead; a crash after that leaves it to the next owner to send."""
        lane, gaps, now = self._lane, self._gaps, self._lane.context.clock()

        async def sign() -> list[Attempt | None]:
            rivals = {nonce: [a for a in gaps.fills if a.nonce == nonce] for nonce in nonces}
            return [await lane.chain.noop(lane.id, nonce, rivals[nonce], now) for nonce in nonces]

        what = (tuple(nonces), tuple(a.name for a in gaps.fills))
        signed: list[Attempt] = []
        for nonce, noop in zip(nonces, await lane.signatures.get(Slot.FILL, what, sign, wait=wait), strict=True):
            if noop is None:
                lane.context.metrics.priced_out.labels(lane.id).inc()
                lane.log.error("no better price below the cap", nonce=nonce)
                gaps.priced_out(now)
                continue
            signed.append(noop)
        if not signed or not lane.plan.signs_again:  # the lane may have been stopped while the signer worked
            return
        try:
            gaps.filled(await lane.retry_while_leased(lambda: lane.context.ledger.fill(lane.fence, signed)))
        except (Refused, RolledBack) as refusal:
            lane.log.warning("write-ahead refused", why=str(refusal))
            lane.refresh = True
            return
        lane.context.metrics.fills.labels(lane.id).inc(len(signed))
        lane.log.warning("gap filled", nonces=[str(a.nonce) for a in signed], hashes=[a.hash for a in signed])
        lane.context.point("after_fill_ahead")

    async def send(self, attempts: Sequence[Attempt]) -> None:
        lane = self._lane
        lane.check_lease()
        self._gaps.sent(lane.context.clock())
        try:
            replies = await lane.chain.broadcast(lane.id, attempts)
        except TxManagerError as error:
            lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
            return
        for attempt, reply in zip(attempts, replies, strict=False):
            lane.context.metrics.sends.labels(lane.id, reply.verdict).inc()
            if not reply.verdict.sent:
                lane.log.info("send not taken", hash=attempt.hash, verdict=reply.verdict, message=reply.message)
        lane.flying.set()

    async def vouched(self, view: NonceView) -> None:
        """An operator answers for the past: whatever is empty now is filled, settled numbers included."""
        gaps = self._gaps
        if gaps.block:
            gaps.forget()
            while len(gaps.fills) < AT_MOST and (unowned := self._lane.plan.unowned(view.next_nonce)):
                with contextlib.suppress(NotYet):
                    await self.fill(unowned, wait=True)
                if not {a.nonce for a in gaps.fills} >= set(unowned):
                    return  # refused or priced out: seen again, and said again
            gaps.send_again()
