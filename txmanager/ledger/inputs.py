"""What a caller of any ledger can get wrong by itself, before anything is asked of a store."""

from __future__ import annotations

from collections.abc import Sequence

from txmanager.core.errors import InvalidInput, NotAllowed
from txmanager.core.models import Outcome, Record


def check_token(token: str) -> None:
    if not token:
        raise InvalidInput("token", "must be random and not empty: it is what tells one owner from the next")


def check_final(outcome: Outcome) -> Outcome:
    if not outcome.status.final:
        raise InvalidInput("outcome.status", f"must be done, failed or cancelled, not {outcome.status}")
    return outcome


def check_retirable(records: Sequence[Record]) -> None:
    for record in records:
        if not record.status.final:
            raise NotAllowed(f"intent {record.id.key!r} is {record.status}; only a final record can be retired")
