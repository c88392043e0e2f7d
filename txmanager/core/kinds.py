"""What an API must know of a kind of intent without knowing its chain: its model, and how to read a payload.

A chain adapter provides the kinds; `Reading` is what it says of one payload, checked against the rules of its pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from txmanager.core.errors import PolicyRefused, TxManagerError
from txmanager.core.given import RAW_KEY
from txmanager.core.models import Json, Record
from txmanager.core.values import value

TOP_UP_KEY = "top-up:"
"""Followed by the lane and a span of time: the idempotency key of a payment to a lane that runs low."""
FILL_KEY = "fill:"
KEYS_KEY = "keys:"
"""Of what `txmanager keys` sends."""
FILL = "fill"
"""The kind of what used up a nonce of no intent; no caller can ask for it."""
RESERVED_KEYS = ("create:", "recovery:", "delegate:", RAW_KEY, TOP_UP_KEY, FILL_KEY, KEYS_KEY)
"""How idempotency keys begin that are derived here; a caller's own must not, or it could take one before we need it."""
CREATE = "create"
"""What stands for the receiver of a transaction that creates a contract and so has none."""

UNLIMITED = 1 << 256
"""A deposit above every limit that can be configured: of what gives everything away."""


@value(frozen=True, slots=True)
class Reading:
    """One valid payload. `receivers` and `deposit` are what allow-lists and limits are held against."""

    payload: Mapping[str, Json]
    """What is stored and signed from."""
    receivers: frozenset[str]
    deposit: int
    """What the relayer spends beside fees, in the chain's smallest unit."""
    derived_key: str | None = None
    """The idempotency key that the payload itself names."""
    identity: Mapping[str, Json] | None = None
    """Set where the payload is claimed under its derived key whatever key the caller brings, which becomes an alias:
    what the fingerprint is taken of, equal for every form of the same request."""
    partition_key: str | None = None
    """Which intents must share a lane, whatever the caller asks for: those that compete for one number."""
    own_account: frozenset[str] = frozenset()
    """The effects on the pool's own account, by name: they need more than the right to submit."""
    cost: int = 0
    """What it takes from the relayer, fees included, as far as the payload alone tells: EVM at least, NEAR at worst."""
    worst: int | None = None
    """What it costs at worst, fees included: what budgets are charged. None where only a `max_cost` can say."""
    max_cost: int | None = None
    """What the pool lets one intent cost; noted on the intent, because prices move until it is signed."""
    refusal: PolicyRefused | None = None
    """Why the pool's policy does not pay for it. Known keys are answered all the same."""

    @property
    def spends(self) -> str:
        """The deposit, for people."""
        return str(self.deposit) if self.deposit < UNLIMITED else "the whole balance"


@dataclass(frozen=True, slots=True)
class KindPath:
    """A path of one kind alone: its body is the payload itself, next to the fields that every intent has."""

    path: str
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Fields that have another name in the payload: the body's name, then the payload's."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    """`family.what`; the family begins the names of its schemas in the API's document."""
    model: type[BaseModel]
    read: Callable[[str, Mapping[str, Json]], Reading]
    """`read(pool, payload)`; raises `InvalidInput` naming the field. What only the policy refuses is read."""
    own_path: KindPath | None = None


def reading_of(kinds: Mapping[str, Kind], record: Record) -> Reading | None:
    """What the payload of a record does, as far as it can be read: the rules may be others since it was accepted."""
    kind = kinds.get(record.intent.kind)
    if kind is None or not record.intent.payload:
        return None
    try:
        return kind.read(record.id.pool, record.intent.payload)
    except TxManagerError:
        return None
