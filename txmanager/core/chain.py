"""The `Chain` protocol: the small closed set of things a lane worker asks of any chain.

Chains differ in two facts (`Traits`): whether a gap blocks what follows (EVM) and whether being overtaken kills
(NEAR). Everything else is a look-up, a send or a proof. A send never answers "failed": it answers a `Verdict`, and
each verdict has one reaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal, Protocol

from txmanager.core.funds import Cost, Funds
from txmanager.core.models import Attempt, Intent, Json, Outcome, Purpose
from txmanager.core.turns import TurnReaders
from txmanager.core.values import value


@value(frozen=True, slots=True)
class Traits:
    """How a chain treats nonces."""

    gaps_block: bool
    """EVM: nonce n+1 waits for n. NEAR: gaps are harmless."""
    overtaking_kills: bool
    """NEAR: once n+1 landed, n is dead for ever."""
    replaces: bool
    """EVM: several attempts may share a nonce; any may land."""
    turns: TurnReaders = field(default_factory=dict)
    """Kinds of intents that use up a nonce of somebody else (NEAR: delegates), each with its reader."""
    height_of: Callable[[Outcome], int | None] = lambda outcome: None
    """The block that an outcome names; None where outcomes name none, or this one has none."""


class Verdict(StrEnum):
    """What a node said to a send. Only the listed reaction is ever taken; none of them is "sign again"."""

    ACCEPTED = "accepted"
    """Handed over; nothing is proven. Track it."""
    ALREADY_KNOWN = "already_known"
    """The same bytes are there. Track it."""
    NONCE_TOO_LOW = "nonce_too_low"
    """Ours landed, or was overtaken, or somebody else used the key: look up every hash, then prove."""
    NONCE_GAP = "nonce_gap"
    """A predecessor is missing: resend it first."""
    EXPIRED = "expired"
    """The node thinks that the validity is over: prove death by height, never by this word alone."""
    UNDERPRICED = "underpriced"
    """EVM: reprice, write ahead, send."""
    REPLACEMENT_UNDERPRICED = "replacement_underpriced"
    """EVM: bump again from the higher of the two."""
    INVALID_FEE = "invalid_fee"
    """EVM: our own fault; reprice, write ahead, send, alert."""
    FEE_CAP_EXCEEDED = "fee_cap_exceeded"
    """EVM: stop bumping, alert."""
    INSUFFICIENT_FUNDS = "insufficient_funds"
    """Perhaps only now: what else is on its way may be counted. Compare with the balance: wait, pause, or end it."""
    KEY_MISSING = "key_missing"
    """The signer's key or account is not there: quarantine."""
    PERMANENT = "permanent"
    """Never acceptable: kill the nonce with a recorded no-op, then fail the intent."""
    BUSY = "busy"
    """Congestion, a full pool, a per-sender limit: same bytes again after a pause."""
    ONE_AT_A_TIME = "one_at_a_time"
    """EVM: this account may have one in the pool (EIP-7702): same bytes again, and a window of 1 from now on."""
    RATE_LIMITED = "rate_limited"
    """Same bytes again after a pause."""
    UNAVAILABLE = "unavailable"
    """A connection error: outcome unknown, same bytes again; the only verdict that trips a breaker."""
    UNKNOWN = "unknown"
    """Anything else: outcome unknown, look up, same bytes again."""

    @property
    def sent(self) -> bool:
        """The node took the bytes, so the next nonce may follow."""
        return self in _SENT


_SENT = frozenset({Verdict.ACCEPTED, Verdict.ALREADY_KNOWN})


@value(frozen=True, slots=True)
class SendReply:
    verdict: Verdict
    message: str = ""
    reached: bool = False
    """The chain's nonce was seen at or above this attempt's: it is included or overtaken, and waits for nothing."""


@value(frozen=True, slots=True)
class Prepared:
    """An intent that passed every check decidable before write-ahead, ready to get a nonce."""

    intent: Intent
    body: object
    """Whatever the adapter needs to sign; opaque to the worker."""
    cost: Cost | None = None
    """What it may take at worst; None where nobody knows before it is signed."""


@value(frozen=True, slots=True)
class Unpriced:
    """The chain would not even try it for want of funds, so nobody knows what it costs."""

    intent: Intent
    at_least: Cost
    message: str


@value(frozen=True, slots=True)
class Impossible:
    """The intent can never succeed: it fails alone, before anything is signed."""

    error: Mapping[str, Json]
    by_node: bool = False
    """It rests on what a node said (a simulation, a key, a height), not on the payload alone."""
    saved: str = ""
    """Why it would have failed on chain at our cost, in one word for metrics; empty where nothing would have run."""


@value(frozen=True, slots=True)
class NonceView:
    """A final reading of the chain: `next_nonce` is the lowest nonce the chain would still take."""

    next_nonce: int
    height: int
    balance: int | None = None
    """What the lane can spend (account balance or key allowance), in the chain's smallest unit."""
    funds: Funds | None = None
    """The same by purse, without what the chain keeps locked; None when nobody says."""


@value(frozen=True, slots=True)
class Readings:
    """One lane as several nodes see it. What would stop the lane needs `needed` of them."""

    by_node: Mapping[str, NonceView]
    needed: int = 1

    def say(self, it: Callable[[NonceView], bool]) -> bool:
        return sum(map(it, self.by_node.values())) >= self.needed

    @property
    def next_nonce(self) -> int | None:
        """The one that as many nodes as must agree say; None while they differ."""
        nonces = [view.next_nonce for view in self.by_node.values()]
        return next((nonce for nonce in nonces if nonces.count(nonce) >= self.needed), None)

    @property
    def answers(self) -> dict[str, Json]:
        return {node: str(view.next_nonce) for node, view in self.by_node.items()}


@value(frozen=True, slots=True)
class Doubt:
    """What different nodes said of one attempt, when that is not enough to end its intent."""

    about: Literal["outcome", "death"]
    answers: Mapping[str, Json]
    """By node; what a node that did not answer was asked for is listed, too."""
    conflict: bool
    """They contradict each other. Otherwise too few of them said it yet."""


@value(frozen=True, slots=True)
class Sighting:
    """Where a hash was seen. `unknown` proves nothing; only `final` carries an outcome that may be stored."""

    where: Literal["unknown", "pending", "included", "final"]
    outcome: Outcome | None = None
    height: int | None = None
    doubt: Doubt | None = None


UNSEEN = Sighting("unknown")


@value(frozen=True, slots=True)
class Proof:
    """Why an attempt can never land. `cause` decides whether the death counts against the re-sign limit."""

    cause: Literal["overtaken", "expired", "refused"]
    evidence: Mapping[str, Json] = field(default_factory=dict)


class Chain(Protocol):
    """One network as seen by lane workers. Every method may raise `Unavailable`; none guesses."""

    traits: Traits

    def serves(self, intent: Intent) -> bool:
        """Whether this release knows the intent's kind and version; if not, the lane is left to a newer worker."""
        ...

    async def nonce(self, lane: str) -> NonceView:
        """The final state of the lane's key. A missing key raises `KeyMissing`, it is never nonce 0."""
        ...

    async def readings(self, lane: str, first: NonceView) -> Readings:
        """The same of as many different nodes as must agree before a lane is stopped; `first` alone where one node is
        enough. `Unavailable` when too few of them answer."""
        ...

    async def prepare(self, lane: str, intents: Sequence[Intent]) -> list[Prepared | Impossible | Unpriced]:
        """Check everything that can be checked before a nonce is spent. Intents of a batch are independent."""
        ...

    def cost(self, attempt: Attempt) -> Cost:
        """What recorded bytes may take at worst."""
        ...

    async def sign(
        self, lane: str, prepared: Sequence[Prepared], first_nonce: int, purpose: Purpose, now: int
    ) -> list[Attempt]:
        """Sign with consecutive nonces against one recent final block. Nothing is sent. Answers the signed prefix, at
        least one attempt; a signer that signs not even the first raises its `SignerFault`."""
        ...

    def instant(self, lane: str) -> bool:
        """Whether signatures of this lane are made in this process, at once."""
        ...

    async def trial(self, lane: str) -> None:
        """Make and verify a signature over bytes that no chain takes; raises the signer's `SignerFault`."""
        ...

    async def replace(self, lane: str, prepared: Prepared, previous: Sequence[Attempt], now: int) -> Attempt | None:
        """EVM: the same nonce at a better price, or None when the cap is reached. NEAR never replaces."""
        ...

    async def noop(self, lane: str, nonce: int, previous: Sequence[Attempt], now: int) -> Attempt | None:
        """Bytes that only use up `nonce`; None when this key cannot sign any."""
        ...

    async def broadcast(self, lane: str, attempts: Sequence[Attempt]) -> list[SendReply]:
        """Send in order on the lane's own connection, n+1 only after n was taken; answers a prefix: what follows the
        first bytes that were not taken is not sent and has no reply."""
        ...

    async def probe(self, lane: str, attempt: Attempt) -> SendReply:
        """A validating send of the same bytes: tells why they are not included."""
        ...

    async def look_up(self, lane: str, attempts: Sequence[tuple[Intent, Attempt]]) -> list[Sighting]:
        """Find many hashes at once, on other connections than sends."""
        ...

    async def prove_dead(self, lane: str, attempts: Sequence[Attempt]) -> list[Proof | None]:
        """A proof for each attempt that can never land, None for every other, unreachable nodes included."""
        ...

    async def close(self) -> None: ...
