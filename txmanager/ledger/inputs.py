"""What a caller of any ledger can get wrong by itself, before anything is asked of a store."""

from __future__ import annotations

from collections.abc import Sequence

from txmanager.core.errors import InvalidInput, NotAllowed, Outdated
from txmanager.core.ledger import Settlement
from txmanager.core.models import LaneSpec, Outcome, Record, is_name
from txmanager.core.reservations import NONCE_LIMIT
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, PauseCause, QuarantineCause, StopCause, safe_reason, words_of


def check_token(token: str) -> None:
    if not token:
        raise InvalidInput("token", "must be random and not empty: it is what tells one owner from the next")


def check_settlement(item: Settlement) -> Outcome:
    outcome, final = item.outcome, item.final
    if not outcome.status.final:
        raise InvalidInput("outcome.status", f"must be done, failed or cancelled, not {outcome.status}")
    if final is not None and (final.id != item.id or final.life != item.life or final.outcome != outcome):
        raise InvalidInput("final", f"is not the end of {item.id.key!r} that is settled; build it with Record.ended")
    return outcome


def check_retirable(records: Sequence[Record]) -> None:
    for record in records:
        if not record.status.final:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}; only a final record can be retired")


def check_one_step(offered: bool) -> None:
    if not offered:
        raise NotAllowed("homes and lanes of this ledger are apart; claim, and then append. Nothing was accepted.")


def check_numbers(token: str, ttl_ms: int, *nonces: int | None) -> None:
    """What a reservation is asked with. A token is one word, perhaps behind its tenant's name."""
    tenant, space, word = token.rpartition(" ")
    named = not space or is_name(tenant)
    if not named or not word or not token.isascii() or not token.isprintable() or len(word) > 128:
        raise InvalidInput("token", "must be 1 to 128 visible ASCII characters without spaces, and random")
    if ttl_ms < 1:
        raise InvalidInput("ttl_ms", "must be at least 1 ms")
    if any(nonce is not None and not 0 <= nonce < NONCE_LIMIT for nonce in nonces):
        raise InvalidInput("chain_nonce", f"must be a count from 0 to {NONCE_LIMIT - 1}")


def check_sort(keyless: bool, spec: LaneSpec) -> None:
    if keyless != spec.keyless:
        raise other_sort(spec)


def other_sort(spec: LaneSpec) -> NotAllowed:
    """Two users of one key collide, so an address never changes sides."""
    was = "signed here" if spec.keyless else "keyless: its key is the callers'"
    return NotAllowed(f"lane {spec.id} is {was}, for ever; an address cannot be both. Correct keys and keyless.")


def check_stop(
    state: LaneState, reason: str, cause: StopCause | None, command: LaneCommand | None
) -> tuple[str, StopCause | None, LaneCommand | None]:
    """Reason, cause and command as they are stored together."""
    if state is LaneState.PAUSED and cause is None:
        cause = PauseCause.OPERATOR
    kind = {LaneState.PAUSED: PauseCause, LaneState.QUARANTINED: QuarantineCause}.get(state)
    if cause is not None and (kind is None or not isinstance(cause, kind)):
        raise InvalidInput("cause", f"{cause} is no cause of a lane that is {state}")
    if command is not None and cause is not PauseCause.OPERATOR:
        raise InvalidInput("command", f"{command} needs a lane that an operator pauses")
    stop = command or (cause if cause is not PauseCause.OPERATOR else None)
    if stop is not None:
        reason = reason or words_of(stop)
    return safe_reason(state, reason, cause, command), cause, command


def outdated(lane: str) -> Outdated:
    return Outdated(f"something else was asked of lane {lane} meanwhile; read it again. Nothing changed.")


_OBSTACLES = {
    "records": "still holds records; wait for their ends, or cancel them",
    "sent": "has numbers whose bytes may still land; their transactions end first",
    "reserved": "has numbers reserved, or callers in line; release them, or wait until they expire",
}


def check_forgettable(lane: str, keyless: bool, state: LaneState, obstacle: str) -> None:
    """A lane that signs keeps its nonces for ever, and a closed one must not be reborn."""
    if not keyless:
        raise NotAllowed(f"lane {lane} signs by itself; it can be closed, never deleted")
    if state is LaneState.CLOSED:
        raise NotAllowed(f"lane {lane} is closed for ever; deleting it would let it open again")
    if obstacle:
        raise NotAllowed(f"lane {lane} {_OBSTACLES[obstacle]}; nothing was deleted")
