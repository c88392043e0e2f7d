"""Numbers below a lane's cursor that belong to no intent: where gaps block, each stops the lane until it is used up.

They come from what nobody can undo: a transaction from before the lane that a reorg took back, records that a server
forgot. A number is empty only after it was seen so for a while. One that was settled, or that any attempt of the lane
has, is never empty. The cursor is never lowered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from txmanager.core.kinds import FILL, FILL_KEY
from txmanager.core.models import Attempt, Intent, IntentId, Outcome, Record
from txmanager.core.positions import START
from txmanager.core.steps import Policy

AT_ONCE = 16
"""How many no-ops are out at most: nodes hold no more of an account."""


def fill_intent(pool: str, attempt: Attempt) -> Intent:
    """What a no-op stands for that nobody asked for."""
    key = FILL_KEY + attempt.hash
    return Intent(IntentId(pool, key), FILL, {}, "", partition_key=key)


def fill_record(pool: str, lane: str, attempt: Attempt, outcome: Outcome) -> Record:
    """A no-op that landed, as an archive keeps it: what it took left the lane, too. The ledger knows the time."""
    intent, life = fill_intent(pool, attempt), attempt.hash.removeprefix("0x")[:32]
    return Record(intent, lane, life, outcome.status, START, 0, 0, attempts=(attempt,), outcome=outcome)


class Gaps:
    def __init__(self, policy: Policy, *, block: bool) -> None:
        self._policy = policy
        self.block = block
        """Whether a gap stops this lane at all."""
        self.landed = -1
        """The highest nonce of ours that is known to be settled: nothing at or below it is empty."""
        self.empty: dict[int, int] = {}
        """Numbers that belong to nobody, and since when that was seen."""
        self.fills: Sequence[Attempt] = ()
        """No-ops that are written ahead and not over, by nonce and age."""
        self._sent_at = 0
        self._priced_out_until = 0

    def __bool__(self) -> bool:
        return bool(self.empty or self.fills)

    @property
    def floor(self) -> int | None:
        """The lowest number that waits to be used up: everything above waits for it, whatever it offers."""
        return min([*self.empty, *(a.nonce for a in self.fills)], default=None)

    def unowned(self, numbers: Iterable[int], owned: Container[int]) -> list[int]:
        """The first of these numbers that no attempt has, as many as may be out at once."""
        filled = {a.nonce for a in self.fills}
        found: list[int] = []
        for nonce in numbers:
            if len(found) == AT_ONCE:
                break
            if nonce not in owned and nonce not in filled:
                found.append(nonce)
        return found

    # -- events

    def settled(self, nonce: int) -> None:
        self.landed = max(self.landed, nonce)

    def left(self, fills: Sequence[Attempt]) -> None:
        """What the ledger has of no-ops that are not over."""
        self.fills = fills

    def forget(self) -> None:
        """An operator answers for what was seen so far."""
        self.empty = {}

    def saw(self, empty: Iterable[int], now: int) -> list[int]:
        """These belong to nobody now; answers which of them are new."""
        known = self.empty
        self.empty = {n: known.get(n, now) for n in empty}
        return sorted(set(self.empty) - set(known))

    def filled(self, fills: Sequence[Attempt]) -> None:
        """New no-ops are written ahead, which are sent at once."""
        self.fills = fills
        self.send_again()
        numbers = {a.nonce for a in fills}
        self.empty = {n: since for n, since in self.empty.items() if n not in numbers}

    def sent(self, now: int) -> None:
        self._sent_at = now

    def send_again(self) -> None:
        self._sent_at = 0

    def priced_out(self, now: int) -> None:
        """A better price would have passed the cap."""
        self._priced_out_until = now + self._policy.replace_after_ms

    # -- what to do

    def due(self, now: int) -> list[int]:
        """Numbers that were empty for long enough, and no-ops that did not get in at their price."""
        if now < self._priced_out_until:
            return []
        empty = [n for n, since in self.empty.items() if now - since >= self._policy.fill_after_ms]
        lowest = min((a.nonce for a in self.fills), default=None)
        newest = max((a.signed_at for a in self.fills if a.nonce == lowest), default=now)
        late = [lowest] if lowest is not None and now - newest >= self._policy.replace_after_ms else []
        return sorted([*late, *empty[: max(0, AT_ONCE - len({a.nonce for a in self.fills}))]])

    def unsent(self, now: int) -> list[Attempt]:
        """The newest no-op of each number, when it is time to send them (again)."""
        if not self.fills or 0 <= now - self._sent_at < self._policy.include_within_ms:
            return []
        return list({a.nonce: a for a in self.fills}.values())
