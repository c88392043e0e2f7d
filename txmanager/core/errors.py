"""Every error txmanager raises on purpose, named after the reaction it asks for.

TxManagerError
├── InvalidInput            the caller fixes the request; nothing was written
│   ├── InvalidKey          the idempotency key breaks the rules
│   ├── PolicyRefused       the pool's policy does not pay for it; a known key is answered all the same
│   │   └── OwnAccountRefused   it would take over the pool's own account
│   └── InvalidSettings     the configuration breaks the rules (exit code 2)
├── KeyReused               same key, other payload: the caller picks another key; nothing changed
├── BudgetExhausted         a budget does not pay for it now: wait, ask for less, or have the budget raised
├── NotFound                no such intent or lane
├── NotAllowed              the state forbids it (cancel of a final intent, close of a busy lane, ...)
│   ├── ReservationOver     the number is not this token's any more: reserve again with a new token
│   └── Outdated            it rests on an older reading of the lane: read again, decide again; nothing changed
├── NonceConflict           the bytes' number is not theirs, or is used: reserve again, sign again
├── Busy                    come back later: nothing was accepted
│   ├── QueueFull           the lane's queue is at its limit
│   ├── NoRoom              the caller has too much waiting: what it sent before ends first
│   ├── TooManyHeld         the caller has too many numbers reserved, or made too many lanes: release some first
│   ├── MemoryFull          the ledger's memory is above its limit
│   └── TurnTaken           others are before this caller: ask again, the place is kept for a while
├── StaleClaim              the claim is too old (or from the future): claim again, then append
├── LaneClosed              the lane takes nothing any more: move the claim
├── NoLane                  the pool has no active lane
├── Fenced                  another owner holds the lane: stop working on it at once
├── Refused                 the ledger refused one entry of a batch: take again, nothing was written
├── KeyMissing              the signing key is not on chain: quarantine the lane
├── NotSigned               one intent became impossible while its batch was signed: it fails alone, unsigned
├── NotOurs                 bytes in the ledger are not what this lane signed: sign nothing from them, hold the intent
├── SignerFault             no usable signature; nothing was signed, no nonce was used
│   ├── SignerAway          it did not answer, or asked to come back later: the lane waits and asks again
│   ├── SignerRefused       it will not sign for us: pause the lane, ask now and then
│   ├── TransactionRefused  its policy forbids this one transaction: the intent fails alone, unsigned
│   └── BadSignature        its signature is not one of this key over these bytes: quarantine the lane
├── RolledBack              the ledger is not the one that was written to: quarantine, sign nothing
├── Unavailable             the ledger or the chain is away: retry the same call
│   └── Unconfirmed         executed perhaps, not durably acknowledged: retry the same key
└── Misconfigured           a server that cannot keep the promises: refuse to start (exit code 2)
"""

from __future__ import annotations

from collections.abc import Mapping


class TxManagerError(Exception):
    """Base of the tree. `code` is stable and machine-readable; the message is for people."""

    code = "error"


class InvalidInput(TxManagerError):
    code = "invalid_input"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidKey(InvalidInput):
    code = "invalid_idempotency_key"


class PolicyRefused(InvalidInput):
    code = "policy_refused"


class OwnAccountRefused(PolicyRefused):
    code = "own_account_refused"


class InvalidSettings(InvalidInput):
    code = "invalid_settings"


class KeyReused(TxManagerError):
    code = "idempotency_key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was used before with another payload; "
            "the first request stands unchanged. Use a new key for a new request."
        )
        self.key = key


class BudgetExhausted(TxManagerError):
    """`left` and `needs` are in the budget's own units."""

    code = "budget_exhausted"

    def __init__(self, budget: str, left: int, needs: int, retry_after_s: int | None, why: str = "") -> None:
        """`retry_after_s` is None when the whole budget is smaller than this one intent."""
        super().__init__(why or f"budget {budget} has {left} units left, and this may cost {needs}")
        self.budget = budget
        self.left = left
        self.needs = needs
        self.retry_after_s = retry_after_s
        self.more: dict[str, object] = {"budget": budget, "left": str(left), "needs": str(needs)}


class NotFound(TxManagerError):
    code = "not_found"


class NotAllowed(TxManagerError):
    code = "not_allowed"


class Outdated(NotAllowed):
    code = "outdated"


class ReservationOver(NotAllowed):
    code = "reservation_over"


class NonceConflict(TxManagerError):
    code = "nonce_conflict"

    def __init__(self, why: str, current: int | None, attempted: int, *, retry: bool = True) -> None:
        super().__init__(why)
        self.current = current
        self.attempted = attempted
        self.retry = retry
        self.more = {
            "error": "NONCE_CONFLICT",
            "currentNonce": current,
            "attemptedNonce": attempted,
            "shouldRetry": retry,
        }


class Busy(TxManagerError):
    code = "busy"
    retry_after_s = 1


class QueueFull(Busy):
    code = "queue_full"

    def __init__(self, lane: str, depth: int) -> None:
        super().__init__(f"lane {lane} has {depth} intents waiting; nothing was accepted, retry the same key later")
        self.lane = lane
        self.depth = depth


class NoRoom(Busy):
    code = "token_queue_full"

    def __init__(self, owner: str, count: int, size: int) -> None:
        super().__init__(
            f"{owner!r} has {count} intents with {size} bytes waiting and may have no more; nothing was accepted. "
            "Retry the same key when some have ended; max_queued and max_queued_bytes of the token are the limits."
        )


class TooManyHeld(Busy):
    code = "too_many_held"


class MemoryFull(Busy):
    code = "ledger_memory_full"

    def __init__(self, used: int, limit: int) -> None:
        super().__init__(
            f"the ledger uses {used} of {limit} bytes; nothing was accepted. Retry later, or raise its maxmemory."
        )


class TurnTaken(Busy):
    code = "turn_taken"

    def __init__(self, lane: str, token: str, ahead: int) -> None:
        super().__init__(f"{ahead} before you on lane {lane}; ask again with the same lockId to keep your place")
        self.more = {"lockId": token, "ahead": ahead}


class StaleClaim(TxManagerError):
    code = "stale_claim"


class LaneClosed(TxManagerError):
    code = "lane_closed"

    def __init__(self, lane: str) -> None:
        super().__init__(f"lane {lane} is closed or was never registered")
        self.lane = lane


class NoLane(TxManagerError):
    code = "no_lane"

    def __init__(self, pool: str) -> None:
        super().__init__(
            f"pool {pool!r} has no active lane; start a worker for it, or resume a lane. Nothing was accepted."
        )
        self.pool = pool


class Fenced(TxManagerError):
    code = "fenced"

    def __init__(self, lane: str, owner: str, epoch: int) -> None:
        super().__init__(f"lane {lane} belongs to {owner or 'nobody'} since epoch {epoch}")
        self.lane = lane
        self.owner = owner
        self.epoch = epoch


class Refused(TxManagerError):
    code = "refused"

    def __init__(self, entry: str, why: str) -> None:
        super().__init__(f"{entry}: {why}; nothing of the batch was written")
        self.entry = entry
        self.why = why


class NotSigned(TxManagerError):
    """One intent of a batch turned out to be impossible while the batch was signed; nothing of it was signed."""

    code = "not_signed"

    def __init__(self, id: object, error: Mapping[str, object], saved: str = "") -> None:
        super().__init__(str(error.get("message", "")))
        self.id = id
        self.error = dict(error)
        self.saved = saved


class NotOurs(TxManagerError):
    """Somebody changed what was written ahead: a replacement would sign what they wrote."""

    code = "bad_bytes"

    def __init__(self, nonce: int, hash: str, why: str) -> None:
        super().__init__(f"the stored bytes of {hash} are not what this lane signed: {why}")
        self.evidence = {"nonce": str(nonce), "hash": hash, "message": f"{why}; nothing was signed from it"}


class SignerFault(TxManagerError):
    code = "signer_fault"


class SignerAway(SignerFault):
    code = "signer_away"


class SignerRefused(SignerFault):
    code = "signer_refused"


class TransactionRefused(SignerFault):
    code = "transaction_refused"


class BadSignature(SignerFault):
    code = "bad_signature"


class RolledBack(TxManagerError):
    code = "ledger_rolled_back"

    def __init__(self, lane: str, stored: str, found: str) -> None:
        super().__init__(f"lane {lane} was written in history {stored} of the ledger, which now has {found}")
        self.lane = lane
        self.stored = stored
        self.found = found


class Unavailable(TxManagerError):
    code = "unavailable"
    retry_after_s = 1


class Unconfirmed(Unavailable):
    code = "unconfirmed"


class Misconfigured(TxManagerError):
    code = "misconfigured"


class KeyMissing(TxManagerError):
    """The chain has no such account or access key."""

    code = "key_missing"
