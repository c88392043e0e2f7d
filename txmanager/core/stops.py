"""Why a lane stands still, and what an operator asks of it: types of their own, so that no text is ever an order.

`reason` is for people. What the program acts on is the cause and the command, which only this program writes. A lane
that release 0.1.0 stopped has neither: `from_reason` reads it by the words of that release.
"""

from __future__ import annotations

from enum import StrEnum

from txmanager.core.states import LaneState


class PauseCause(StrEnum):
    """Why a lane is paused. Only `insufficient_funds`, `held` and `signer_refused` end by themselves."""

    OPERATOR = "operator"
    FUNDS = "insufficient_funds"
    HELD = "held"
    """An intent is held, and the lane must not go past it."""
    SIGNER_REFUSED = "signer_refused"
    """The signer will not sign (denied, disabled, wrong PIN). It is asked now and then."""
    REBASELINED = "rebaselined"
    """Rebaselined with `--paused`: an operator compares the queue with the chain first."""


class QuarantineCause(StrEnum):
    """Which promise might not hold. Every one ends only by an operator's word."""

    BAD_SIGNATURE = "bad_signature"
    """What the signer answered is no signature of the lane's key. `resume` ends it, after a right trial signature."""
    ROLLED_BACK = "ledger_rolled_back"
    FOREIGN_NONCE_USE = "foreign_nonce_use"
    KEY_MISSING = "key_missing"
    CURSOR_MOVED = "cursor_moved"
    UNEXPLAINED_OUTCOME = "unexplained_outcome"
    REORG_BEYOND_FINALITY = "reorg_beyond_finality"
    BROKEN = "broken"
    """Its owner broke three times, and no intent is known to be why."""


class LaneCommand(StrEnum):
    """What an operator asks the owner of a paused lane to do."""

    REBASELINE = "rebaseline"
    """Go on from the chain's nonce: the operator vouches for what happened."""
    REBASELINE_PAUSED = "rebaseline_paused"
    """The same, and stay paused."""
    TRIAL = "trial"
    """Go on once the signer made a trial signature that verifies."""


StopCause = PauseCause | QuarantineCause

_HELD = "held: "
_COMMANDS = {
    "rebaseline": LaneCommand.REBASELINE,
    "rebaseline, and stay paused": LaneCommand.REBASELINE_PAUSED,
}
_WORDS: dict[StopCause | LaneCommand, str] = {
    PauseCause.OPERATOR: "paused by an operator",
    PauseCause.FUNDS: "insufficient_funds",
    PauseCause.HELD: "held: an intent waits for an operator",
    PauseCause.SIGNER_REFUSED: "signer_refused",
    LaneCommand.TRIAL: "resumed by an operator; a trial signature comes first",
    PauseCause.REBASELINED: "rebaselined; resume it once its queue is compared with the chain",
    **{command: words for words, command in _COMMANDS.items()},
}


def words_of(cause: StopCause | LaneCommand) -> str:
    """What people read when nobody said more; release 0.1.0 acts on these words."""
    return _WORDS.get(cause, cause.value)


def held_words(key: str, why: str) -> str:
    return f"{_HELD}{key} ({why})"


def from_reason(state: LaneState, reason: str) -> tuple[StopCause | None, LaneCommand | None]:
    """What release 0.1.0 meant by a reason; it stored nothing else."""
    if state is LaneState.QUARANTINED:
        return (QuarantineCause(reason) if reason in list(QuarantineCause) else None), None
    if state is not LaneState.PAUSED:
        return None, None
    if reason in _COMMANDS:
        return PauseCause.OPERATOR, _COMMANDS[reason]
    if reason.startswith(_HELD):
        return PauseCause.HELD, None
    for cause in (PauseCause.FUNDS, PauseCause.REBASELINED):
        if reason == _WORDS[cause]:
            return cause, None
    return PauseCause.OPERATOR, None


def safe_reason(state: LaneState, reason: str, cause: StopCause | None, command: LaneCommand | None) -> str:
    """A reason as it is stored: a worker of release 0.1.0 beside us must not take a person's words for an order."""
    if from_reason(state, reason) == (cause, command) or state is not LaneState.PAUSED:
        return reason
    return f"{cause.value}: {reason}" if cause is not None else f'"{reason}"'
