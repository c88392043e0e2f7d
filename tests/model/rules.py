"""What `make model` checks: scenes that must hold, and the rules whose absence must break one of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scene:
    """One source with what may happen in it. Every state of it is visited."""

    name: str
    source: str
    switches: tuple[str, ...]
    about: str
    quick: bool = True
    """Whether `make test` can afford it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of DESIGN that a variant leaves out, and the scene that must then break."""

    variant: str
    scene: str
    section: str
    rule: str


SCENES = (
    Scene(
        "lane",
        "lane.pml",
        ("SLOW",),
        "two keys, three owners, two producers that retry one key; an owner pauses or crashes between any two steps",
    ),
    Scene(
        "replies",
        "lane.pml",
        ("LOST_REPLIES", "DROPS=1"),
        "the same, but replies are lost, calls are repeated, and the pool loses a transaction",
        quick=False,
    ),
    Scene(
        "rollback",
        "lane.pml",
        ("ROLLBACK",),
        "two keys, three owners, two producers; the ledger falls back once to any earlier state",
        quick=False,
    ),
    Scene(
        "rollback-one",
        "lane.pml",
        ("ROLLBACK", "ONE_KEY", "SLOW", "LOST_REPLIES"),
        "one key through a roll-back, with every pause and lost replies",
    ),
    Scene(
        "replicas",
        "lane.pml",
        ("REPLICAS", "TWO_OWNERS"),
        "a failover loses unconfirmed writes, and the lane continues by itself: two keys, two owners",
        quick=False,
    ),
    Scene("replicas-one", "lane.pml", ("REPLICAS", "ONE_KEY", "SLOW"), "the same with one key and three owners"),
    Scene(
        "cancel",
        "lane.pml",
        ("CANCEL",),
        "a caller cancels one of two keys at any moment; no-ops replace what is in flight",
    ),
    Scene(
        "cancel-rollback",
        "lane.pml",
        ("CANCEL", "ONE_KEY", "ROLLBACK"),
        "one key is cancelled, and the ledger falls back once",
    ),
    Scene(
        "home",
        "home.pml",
        ("SWEEP", "RETIRERS=2"),
        "claims, retention and a second life: two producers for ever, two retirers, a sweeper, time",
    ),
    Scene("failover", "home.pml", ("FAILOVER",), "the home's server loses unconfirmed writes once"),
    Scene("closing", "home.pml", ("CLOSE", "LANES=3"), "a lane drains and closes while its claims are open"),
    Scene(
        "at-once",
        "home.pml",
        ("ONE_STEP", "SWEEP"),
        "one server holds homes and lanes: intents are accepted and end in one step or in two, requests are late, "
        "a sweeper runs",
        quick=False,
    ),
    Scene(
        "at-once-failover",
        "home.pml",
        ("ONE_STEP", "FAILOVER"),
        "the same, and that server loses unconfirmed writes once",
    ),
)

_CLAIM, _APPEND, _RETIRE, _SWEEP, _ROUTER = "4 claim", "4 append", "4 retire", "4 sweep", "2 router"
_ACCEPT = "11.9"
_FENCE, _TAKE, _RECORD, _SETTLE = "2 fence", "4 take", "4 record_attempts", "4 settle"
_DURABLE, _ROLLBACK = "4 durability", "4 roll-back"

RULES = (
    # -- homes
    Rule("CLAIM_STARTS_ANOTHER_LIFE", "home", _CLAIM, "the first claim gives the key its life, later ones renew it"),
    Rule("CLAIM_NOT_DURABLE", "failover", _DURABLE, "a claim is durable before its append"),
    Rule("NO_BORN_LIMIT", "home", _APPEND, "an append whose claim is older than 60 s is rejected"),
    Rule("APPEND_TWICE", "lane", _APPEND, "an append detects an existing record"),
    Rule("NO_TOMBSTONE", "home", _RETIRE, "a retired record leaves a tombstone"),
    Rule("TOMBSTONE_TOO_SHORT", "home", _RETIRE, "the tombstone outlives every claim made before it"),
    Rule("BURIED_BEFORE_HOME", "home", _RETIRE, "the home is written before the tombstone"),
    Rule("RETIRE_NOT_DURABLE", "failover", _DURABLE, "the home is durable before the tombstone"),
    Rule("RETIRE_IGNORES_LIFE", "home", _RETIRE, "a retirer writes only the home of its own life"),
    Rule("BURY_IGNORES_LIFE", "home", _RETIRE, "a retirer buries only the record of its own life"),
    Rule("SWEPT_WITHOUT_COMPARING", "home", _SWEEP, "a claim is deleted only if its life and `born` are unchanged"),
    Rule("SWEPT_WITHOUT_READING", "home", _SWEEP, "the lane is read before a claim is deleted"),
    Rule("SWEPT_TOO_EARLY", "home", _SWEEP, "a claim is swept long after its append became impossible"),
    Rule("ROUTER_CONSULTED_ON_RETRY", "home", _ROUTER, "the lane is chosen once, at the claim"),
    Rule("MOVED_WHEN_NOT_ACTIVE", "closing", _ROUTER, "only the claim of a closed lane without a trace is moved"),
    Rule("MOVED_BLINDLY", "closing", _ROUTER, "a move compares life and lane"),
    Rule("CLOSED_WITH_FINALS", "closing", "2 lane", "a lane closes only when it holds no record at all"),
    Rule("ACCEPT_IGNORES_HOME", "at-once-failover", _ACCEPT, "a key that has a home is not accepted in one step"),
    Rule("ACCEPT_WITHOUT_CLAIM", "at-once-failover", _ACCEPT, "accepting in one step also claims the key"),
    Rule("ACCEPT_WITHOUT_LIMIT", "at-once-failover", _ACCEPT, "an accept requested over 60 s ago is rejected"),
    Rule(
        "END_WITHOUT_HOME", "at-once-failover", _ACCEPT, "an intent that ends in one step leaves its record at its home"
    ),
    Rule(
        "APPEND_IGNORES_HOME",
        "at-once-failover",
        _ACCEPT,
        "where an end leaves no tombstone, an append looks at the home",
    ),
    Rule(
        "HOME_KEPT_FOR_SHORT",
        "at-once-failover",
        _ACCEPT,
        "an end without a tombstone keeps its home for three append limits",
    ),
    # -- the fence
    Rule("NO_FENCE_IN_TAKE", "lane", _TAKE, "take is fenced"),
    Rule("NO_FENCE_IN_RECORD", "lane", _RECORD, "the write-ahead is fenced"),
    Rule("NO_FENCE_IN_SETTLE", "lane", _SETTLE, "settle is fenced"),
    Rule("FENCE_BY_EPOCH_ALONE", "rollback-one", _FENCE, "the fence is epoch and token"),
    # -- take and write ahead
    Rule("TAKE_ANSWERS_ONLY_NEW", "lane", _TAKE, "a repeated take returns the same entries"),
    Rule("CONSUMER_PER_OWNER", "lane", _TAKE, "a new owner takes what its predecessor read and did not sign"),
    Rule("SENT_BEFORE_WRITE_AHEAD", "lane", "5.2", "bytes are written ahead before they are sent"),
    Rule("RECORD_NOT_DURABLE", "replicas-one", _DURABLE, "the write-ahead is durable before the broadcast"),
    Rule("APPEND_NOT_DURABLE", "replicas-one", _DURABLE, "an append is durable before it is acknowledged"),
    Rule("RECOVERY_NOT_DURABLE", "replicas-one", _DURABLE, "what recovery sends again is made durable first"),
    Rule("SETTLE_TWICE", "replies", _SETTLE, "an outcome and its event are stored once"),
    Rule("CURSOR_FROM_CHAIN", "lane", "5.3", "the cursor comes from the ledger, not from the chain"),
    # -- the chain
    Rule("NO_RECOVERY", "lane", "5.1", "recovery sends what is recorded before anything new"),
    Rule("HIGHER_AFTER_A_LOST_SEND", "lane", "5.5", "a send that no node took stops all higher nonces"),
    Rule("SIGNED_AGAIN_ON_TIMEOUT", "lane", "5.5", "unknown is not failed: a timeout signs nothing"),
    Rule("UNKNOWN_IS_DEAD", "lane", "5.6, 6", "an unknown hash alone does not prove death"),
    Rule("STATUS_BEFORE_NONCE", "lane", "6", "a proof reads the final nonce first, the status after it"),
    Rule("NOOP_OVERTAKES", "cancel", "5.7", "a no-op waits until the lane is idle"),
    Rule("LANDED_FORGETS_NOOPS", "cancel", _SETTLE, "`landed` counts no-ops too"),
    Rule("WITHDRAWN_WITHOUT_PROOF", "cancel", "3, 5.7", "cancelled in flight needs the proof of death"),
    Rule("CANCEL_RACES_THE_WRITE_AHEAD", "cancel", "4 cancel", "cancel ends only what is still queued"),
    # -- roll-backs
    Rule("LEASE_OVERWRITES_REPLICATION_ID", "rollback", _ROLLBACK, "a lease never overwrites the replication id"),
    Rule("RECORD_IGNORES_REPLICATION_ID", "rollback", _RECORD, "the write-ahead compares the replication id"),
    Rule(
        "ROLLBACK_IS_TRUSTED",
        "rollback",
        _ROLLBACK,
        "nothing is signed after a roll-back until somebody confirms the ledger",
    ),
    Rule(
        "FORMER_OWNER_VOUCHES", "rollback", _ROLLBACK, "only an owner whose lease never lapsed may confirm the ledger"
    ),
    Rule(
        "CANCELLED_AFTER_A_ROLLBACK",
        "cancel-rollback",
        "3",
        "no intent ends without effect while the ledger may have lost writes",
    ),
    Rule("CANCEL_NOT_DURABLE", "cancel-rollback", _DURABLE, "a cancel is durable before it is answered"),
)

SPARE = (
    Rule("RESIGN_OVERTAKES", "lane", "5.6", "a re-sign waits until it can overtake nobody"),
    Rule("SIGNS_AGAIN_IN_QUARANTINE", "rollback", _ROLLBACK, "a quarantined lane signs nothing again"),
    Rule("DEATH_WITHOUT_ASKING_WHOSE", "rollback", "5.3", "who used the nonce that overtook us is asked"),
    Rule("NO_CHAIN_CHECK_AT_TAKE_OVER", "rollback", "5.3", "a new owner compares cursor and chain"),
    Rule("RESEND_WHAT_A_NOOP_KILLS", "cancel", "5.7", "once a no-op is recorded, what it kills is not sent again"),
    Rule("NOT_THE_OLDEST", "lane", _RECORD, "first attempts are the oldest queued entries"),
)
"""Rules whose absence alone breaks nothing here, because another rule stands behind them: docs/model.md says which."""
