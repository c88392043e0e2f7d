"""What a signer lets one key sign: a pure judgement over what the unsigned bytes do, and over what the day has seen.

A refusal says whom it concerns. What one transaction does by itself refuses that transaction, and its lane goes on with
the next one. What no transaction of the lane could change (another chain, a day that is used up) refuses the key.
"""

from __future__ import annotations

from enum import StrEnum

from txmanager.core.allow_lists import allowed
from txmanager.core.values import value

RESERVE = 10
"""While more than a tenth of the day's total is left, a transaction that does not fit is refused alone. After that the
key is refused until the next day, because ordinary transactions would not fit either."""


class Concerns(StrEnum):
    REQUEST = "request"
    """This transaction's own doing: others of the same key are signed."""
    KEY = "key"
    """Whatever this key is asked to sign now."""


@value(frozen=True, slots=True)
class Refusal:
    concerns: Concerns
    words: str
    lasts_a_day: bool = False
    """The day is used up: nothing changes before the next one."""


@value(frozen=True, slots=True)
class Effects:
    """What unsigned bytes do when they land, as the signer itself read them."""

    slot: str
    """Which nonce they use. Of all transactions in one slot only one can land."""
    receivers: frozenset[str]
    """Everybody but the signing account whom they call or pay."""
    actions: frozenset[str]
    methods: frozenset[str]
    own_account: frozenset[str]
    """What they do to the signing account itself, beside paying and calling others."""
    value: int
    """What can leave the account, in the chain's smallest unit."""
    fee: int
    """What they cost at worst."""
    least_fee: int
    """What the cheapest transaction costs at this price per unit of gas."""
    account: str | None = None
    """Whose transaction it is, where the bytes say so."""
    chain_id: int | None = None
    """For which chain it is, where the bytes say so."""

    @property
    def cost(self) -> int:
        return self.value + self.fee


@value(frozen=True, slots=True)
class KeyPolicy:
    """An allow-list of None allows all; in `receivers`, `*.suffix` allows every name below it."""

    actions: frozenset[str]
    max_value: int
    max_fee: int
    max_per_day: int
    receivers: frozenset[str] | None = None
    methods: frozenset[str] | None = None
    own_account: frozenset[str] = frozenset()
    account: str | None = None
    chain_id: int | None = None


def judge(policy: KeyPolicy, effects: Effects) -> Refusal | None:
    """What is wrong with the transaction, whatever the day has seen."""
    if (effects.account, effects.chain_id) != (policy.account, policy.chain_id):
        found, wanted = (
            (f"account {effects.account!r}", policy.account)
            if effects.account != policy.account
            else (f"chain {effects.chain_id}", policy.chain_id)
        )
        return Refusal(Concerns.KEY, f"the transaction is of {found}; this key signs for {wanted} only")
    words = (
        _first(effects.own_account - policy.own_account, "{} changes the signing account itself")
        or _first(effects.actions - policy.actions, "the action {} is not allowed")
        or _first({r for r in effects.receivers if not allowed(r, policy.receivers)}, "the receiver {} is not allowed")
        or (
            _first(effects.methods - policy.methods, "the method {} is not allowed")
            if policy.methods is not None
            else ""
        )
    )
    if words:
        return Refusal(Concerns.REQUEST, words)
    if effects.value > policy.max_value:
        return Refusal(Concerns.REQUEST, f"it can take {effects.value} from the account; {policy.max_value} is allowed")
    if effects.fee > policy.max_fee:
        # At a price that refuses even the cheapest transaction, the market is to blame and not this one.
        concerns = Concerns.REQUEST if effects.least_fee <= policy.max_fee else Concerns.KEY
        return Refusal(concerns, f"its fee may be {effects.fee}; {policy.max_fee} is allowed")
    if effects.cost > policy.max_per_day:
        return Refusal(
            Concerns.REQUEST, f"it may cost {effects.cost}, more than the {policy.max_per_day} of a whole day"
        )
    return None


def fits(policy: KeyPolicy, spent: int, more: int) -> Refusal | None:
    """Whether the day has room for `more` beside what was signed for already."""
    left = policy.max_per_day - spent
    if not more or more <= left:
        return None
    words = f"it may cost {more}, and {max(0, left)} of today's {policy.max_per_day} is left"
    if left * RESERVE > policy.max_per_day:
        return Refusal(Concerns.REQUEST, words)
    return Refusal(Concerns.KEY, f"{words}; the next day begins at 00:00 UTC", lasts_a_day=True)


def _first(wrong: set[str] | frozenset[str], words: str) -> str:
    return words.format(repr(min(wrong)[:80])) if wrong else ""
