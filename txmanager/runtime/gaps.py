"""Numbers below a lane's cursor that belong to no intent: where gaps block, each stops the lane until it is used up.

They come from what nobody can undo: a transaction from before the lane that a reorg took back, records that a server
forgot. A number is empty only after it was seen so for a while; then a no-op is written ahead for it and sent, sent
again and offered more for like any other bytes, until it is final or the number is used by something else. A number
that was settled, or that any attempt of the lane has, is never empty. The cursor is never lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from txmanager.core.chain import NonceView
from txmanager.core.errors import Busy, KeyMissing, Refused, RolledBack, TxManagerError, Unavailable
from txmanager.core.ledger import Landed
from txmanager.core.models import Attempt, Intent, IntentId
from txmanager.runtime.desk import NotYet, Slot

if TYPE_CHECKING:
    from txmanager.runtime.lane import OwnedLane

AT_ONCE = 16
"""How many no-ops are out at most: nodes hold no more of an account."""
AT_MOST = 256
"""How many an operator's word fills at once; the next word fills the next ones."""
LOOK_EVERY_MS = 1_000


class Gaps:
    def __init__(self, lane: OwnedLane) -> None:
        self._lane = lane
        self.landed = -1
        """The highest nonce of ours that is known to be settled: nothing at or below it is empty."""
        self.empty: dict[int, int] = {}
        """Numbers that belong to nobody, and since when that was seen."""
        self.fills: list[Attempt] = []
        """No-ops that are written ahead and not over, by nonce and age."""
        self._sent_at = 0
        self._looked_at = 0
        self._priced_out_until = 0

    def __bool__(self) -> bool:
        return bool(self.empty or self.fills)

    @property
    def floor(self) -> int | None:
        """The lowest number that waits to be used up: everything above waits for it, whatever it offers."""
        return min([*self.empty, *(a.nonce for a in self.fills)], default=None)

    async def load(self) -> None:
        lane = self._lane
        if self._blocks:
            self.fills = await lane.retry_while_leased(lambda: lane.context.ledger.fill(lane.fence))

    @property
    def _blocks(self) -> bool:
        return self._lane.chain.traits.gaps_block and not self._lane.stored.keyless

    # -- seeing

    def see(self, view: NonceView) -> None:
        """Compare the chain's next nonce with everything that is the lane's."""
        lane, now = self._lane, self._lane.context.clock()
        if not self._blocks or lane.stored.cursor is None:
            return
        settled = max(self.landed, lane.stored.landed if lane.stored.landed is not None else -1)
        known = self.empty
        self.empty = {n: known.get(n, now) for n in self._unowned(max(view.next_nonce, settled + 1))}
        if new := sorted(set(self.empty) - set(known)):
            lane.log.warning("gap seen", nonces=[str(n) for n in new], chain_nonce=str(view.next_nonce))

    def _unowned(self, start: int) -> list[int]:
        owned = {a.nonce for f in self._lane.flights for a in f.record.attempts} | {a.nonce for a in self.fills}
        found: list[int] = []
        for nonce in range(start, self._lane.cursor):
            if len(found) == AT_ONCE:
                break
            if nonce not in owned:
                found.append(nonce)
        return found

    async def tend(self) -> bool:
        """Look again at what is empty or out; True when something is over. No answer changes nothing."""
        lane, now = self._lane, self._lane.context.clock()
        if not self or 0 <= now - self._looked_at < LOOK_EVERY_MS:
            return False
        self._looked_at = now
        try:
            over = await self._over() if self.fills else []
            view = await lane.chain.nonce(lane.id)
        except (Unavailable, Busy, KeyMissing) as error:
            lane.context.metrics.rpc_errors.labels(lane.id, type(error).__name__).inc()
            return False
        if over:
            self.fills = await lane.retry_while_leased(
                lambda: lane.context.ledger.fill(lane.fence, (), [a.name for a in over])
            )
            lane.log.info("gap closed", nonces=sorted({str(a.nonce) for a in over}))
        self.see(view)
        if self.due(now) or self.unsent(now):
            lane.work.set()
        return bool(over)

    async def _over(self) -> list[Attempt]:
        """Every no-op of a number that is used in a final block, by ours or by something else."""
        lane = self._lane
        seen = await lane.chain.look_up(lane.id, [(_intent(lane.stored.spec.pool, a), a) for a in self.fills])
        final = [a for a, sighting in zip(self.fills, seen, strict=True) if sighting.where == "final"]
        await lane.keep([Landed(a.nonce, a.hash, a.raw) for a in final])
        used = {a.nonce for a in final}
        open_ones = [a for a, s in zip(self.fills, seen, strict=True) if a.nonce not in used and s.where == "unknown"]
        proofs = await lane.chain.prove_dead(lane.id, open_ones) if open_ones else []
        used |= {a.nonce for a, proof in zip(open_ones, proofs, strict=True) if proof is not None}
        return [a for a in self.fills if a.nonce in used]

    # -- filling: by the sender alone, but for an operator's re-baseline

    def due(self, now: int) -> list[int]:
        """Numbers that were empty for long enough, and no-ops that did not get in at their price."""
        lane = self._lane
        if not lane.signs_again or now < self._priced_out_until:
            return []
        empty = [n for n, since in self.empty.items() if now - since >= lane.policy.fill_after_ms]
        lowest = min((a.nonce for a in self.fills), default=None)
        newest = max((a.signed_at for a in self.fills if a.nonce == lowest), default=now)
        late = [lowest] if lowest is not None and now - newest >= lane.policy.replace_after_ms else []
        return sorted([*late, *empty[: max(0, AT_ONCE - len({a.nonce for a in self.fills}))]])

    async def fill(self, nonces: Sequence[int], *, wait: bool = False) -> None:
        """Sign a no-op for each and write it ahead; a crash after that leaves it to the next owner to send."""
        lane, now = self._lane, self._lane.context.clock()

        async def sign() -> list[Attempt | None]:
            rivals = {nonce: [a for a in self.fills if a.nonce == nonce] for nonce in nonces}
            return [await lane.chain.noop(lane.id, nonce, rivals[nonce], now) for nonce in nonces]

        what = (tuple(nonces), tuple(a.name for a in self.fills))
        signed: list[Attempt] = []
        for nonce, noop in zip(nonces, await lane.desk.get(Slot.FILL, what, sign, wait=wait), strict=True):
            if noop is None:
                lane.context.metrics.priced_out.labels(lane.id).inc()
                lane.log.error("no better price below the cap", nonce=nonce)
                self._priced_out_until = now + lane.policy.replace_after_ms
                continue
            signed.append(noop)
        if not signed:
            return
        try:
            self.fills = await lane.retry_while_leased(lambda: lane.context.ledger.fill(lane.fence, signed))
        except (Refused, RolledBack) as refusal:
            lane.log.warning("write-ahead refused", why=str(refusal))
            lane.refresh = True
            return
        self._sent_at = 0
        filled = {a.nonce for a in self.fills}
        self.empty = {n: since for n, since in self.empty.items() if n not in filled}
        lane.context.metrics.fills.labels(lane.id).inc(len(signed))
        lane.log.warning("gap filled", nonces=[str(a.nonce) for a in signed], hashes=[a.hash for a in signed])
        lane.context.point("after_fill_ahead")

    def unsent(self, now: int) -> list[Attempt]:
        """The newest no-op of each number, when it is time to send them (again)."""
        if not self.fills or 0 <= now - self._sent_at < self._lane.policy.include_within_ms:
            return []
        return list({a.nonce: a for a in self.fills}.values())

    async def send(self, attempts: Sequence[Attempt]) -> None:
        lane = self._lane
        lane.check_lease()
        self._sent_at = lane.context.clock()
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
        if self._blocks:
            self.empty = {}
            while len(self.fills) < AT_MOST and (unowned := self._unowned(view.next_nonce)):
                with contextlib.suppress(NotYet):
                    await self.fill(unowned, wait=True)
                if not {a.nonce for a in self.fills} >= set(unowned):
                    return  # refused or priced out: seen again, and said again
            self._sent_at = 0


def _intent(pool: str, attempt: Attempt) -> Intent:
    """What a look-up wants to know of a transaction that nobody asked for."""
    return Intent(IntentId(pool, f"fill:{attempt.nonce}"), "fill", {}, "", "")
