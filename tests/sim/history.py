"""What happened, in the order it happened: one flat list of facts, written by the ledger, the nodes and the producers.

Facts are noted where they become true (inside the store's atomic step, at the node, in the caller's hand), so a bug in
the code under test cannot also hide its trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from txmanager.core.models import Attempt, IntentId, Outcome, Purpose
from txmanager.core.states import LaneState, Status


@dataclass(frozen=True, slots=True)
class Leased:
    at: float
    lane: str
    epoch: int
    token: str
    owner: str


@dataclass(frozen=True, slots=True)
class Released:
    at: float
    lane: str
    token: str


@dataclass(frozen=True, slots=True)
class Wrote:
    """A fenced operation that the lane carried out."""

    at: float
    lane: str
    operation: str
    epoch: int
    token: str


@dataclass(frozen=True, slots=True)
class Appended:
    at: float
    lane: str
    id: IntentId
    life: str
    position: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """One attempt written ahead. `open_below`: lower nonces of other intents that could still land then."""

    at: float
    lane: str
    id: IntentId
    life: str
    position: str
    nonce: int
    hash: str
    purpose: Purpose
    deaths: Mapping[str, Any]
    unproven: tuple[str, ...]
    open_below: tuple[str, ...]
    alone: tuple[str, ...]
    """Re-signs and no-ops of this owner that may still land: nothing newer may follow them."""
    lane_state: LaneState = LaneState.ACTIVE
    held: bool = False
    asked: str = ""
    """What a person wants of the intent: an operator's verb, or `cancel`."""
    stranger: bool = False
    """Written by an owner that took the lane over when every node showed a final nonce that is a stranger's."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An intent became final in its lane."""

    at: float
    lane: str
    id: IntentId
    life: str
    outcome: Outcome
    deaths: Mapping[str, Any]
    held: bool = False
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    at: float
    lane: str
    hash: str
    process: str
    known: bool
    """Whether the ledger held these bytes when they left."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a caller was told of a key."""

    at: float
    by: str
    id: IntentId
    life: str
    status: Status
    outcome: Outcome | None
    accepted: bool
    """Told as the answer to a submit: from now on the intent may not be lost."""


@dataclass(frozen=True, slots=True)
class Held:
    """An intent waits for an operator from now on."""

    at: float
    lane: str
    id: IntentId
    life: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The claim of a closed lane went to another one."""

    at: float
    id: IntentId
    life: str
    lane: str


@dataclass(frozen=True, slots=True)
class Retired:
    """The home keeps the final answer from now on."""

    at: float
    id: IntentId
    life: str


@dataclass(frozen=True, slots=True)
class Closed:
    at: float
    lane: str
    records: int


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The ledger forgot; `lost` are lanes that lost writes of an owner."""

    at: float
    lost: frozenset[str]
    forgotten: frozenset[str] = frozenset()
    """Attempts of those lanes that it does not know any more: lane and hash, with a blank between."""


@dataclass(frozen=True, slots=True)
class Operated:
    at: float
    what: str
    lane: str


@dataclass(frozen=True, slots=True)
class Broke:
    """The code under test raised what it should not have."""

    at: float
    what: str


Fact = (
    Leased
    | Released
    | Wrote
    | Appended
    | Recorded
    | Ended
    | Sent
    | Answered
    | Held
    | Moved
    | Retired
    | Closed
    | RolledBack
    | Operated
    | Broke
)


IN_THE_STORE = (Leased, Released, Wrote, Appended, Recorded, Ended, Held, Moved, Retired, Closed)


@dataclass(slots=True)
class History:
    time: Callable[[], float]
    facts: list[Fact] = field(default_factory=list)
    landed: set[str] = field(default_factory=set)
    """Every hash that was ever in a block, an orphaned one included."""
    recorded: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Hashes that a validating send was refused for, rightly or not."""
    may_land: Callable[[str, Attempt], bool] = lambda _lane, _attempt: True
    """What the chain itself knows: whether these bytes of a lane could still be included."""
    strangers: Callable[[str, Iterable[int]], bool] = lambda _lane, _ours: False
    """Whether every node shows a final nonce of the lane that is a stranger's, and none of these."""
    lines: list[str] | None = None
    """The code's own log, kept only when somebody will read it."""

    def mark(self) -> tuple[int, frozenset[str]]:
        """Where the history stands now, for `forget_since`."""
        return len(self.facts), frozenset(self.recorded)

    def forget_since(self, mark: tuple[int, frozenset[str]]) -> None:
        """A replica took over: what the store did since never happened. What was sent and told meanwhile did."""
        upto, recorded = mark
        self.facts[upto:] = [fact for fact in self.facts[upto:] if not isinstance(fact, IN_THE_STORE)]
        self.recorded = set(recorded)

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)
        if self.lines is not None:
            self.lines.append(f"{fact.at:9.3f}  {type(fact).__name__:9} {_brief(fact)}")


def _brief(fact: Fact) -> str:
    """A fact in one line for people: short names, no hashes in full, nothing that is empty."""
    told = []
    for f in fields(fact):
        value = getattr(fact, f.name)
        if f.name == "at" or not value:
            continue
        if isinstance(value, IntentId):
            told.append(value.key)
        elif isinstance(value, Outcome):
            told.append(f"{value.status} by {value.tx_hash[:8]}" if value.tx_hash else f"{value.status} {value.error}")
        elif f.name in ("lane", "life", "token", "hash"):
            told.append(f"{f.name}={value[-4:] if f.name == 'lane' else value[:8]}")
        else:
            told.append(f"{f.name}={value}")
    return " ".join(told)
