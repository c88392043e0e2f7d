"""What a call can end with, named after what the caller does next.

ClientError
├── Unreachable        no answer within the time for retries: the same call again, with the same key
├── StillWaiting       the intent is not final yet; it goes on, wait again
├── IntentFailed       `execute`: the intent ended failed or cancelled; its record says why
├── BadAnswer          what answered is not the API
└── Refused            the API said no; `code`, `field`, `kept` and `do` say why and what helps
    ├── InvalidRequest     correct it (400, 413, 415, 422)
    ├── KeyReused          the key stands for another request: use a new one
    ├── NotPermitted       another token (401, 403)
    ├── NotFound           no such intent or lane (404)
    ├── NotPossible        not in this state (409)
    │   └── NonceConflict      the number is not yours, or is used: reserve and sign again
    └── Overloaded         still busy or away after every retry (429, 503)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txmanager.client.models import Record


class ClientError(Exception):
    """Base of the tree."""


class Unreachable(ClientError):
    pass


class BadAnswer(ClientError):
    pass


class StillWaiting(ClientError):
    def __init__(self, record: Record) -> None:
        super().__init__(f"intent {record.idempotency_key!r} is {record.status}; it goes on, wait again")
        self.record = record


class IntentFailed(ClientError):
    def __init__(self, record: Record) -> None:
        why = (record.error or {}).get("message")
        super().__init__(f"intent {record.idempotency_key!r} ended {record.status}" + (f": {why}" if why else ""))
        self.record = record


class Refused(ClientError):
    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(problem.get("code", ""))
        self.field = problem.get("field")
        self.detail = str(problem.get("detail", ""))
        self.kept = str(problem.get("kept", ""))
        self.do = str(problem.get("do", ""))
        self.problem = dict(problem)
        what = f"{status} {self.code}: {self.detail}".rstrip(". :")
        super().__init__(f"{what}. {self.kept} {self.do}".rstrip())


class InvalidRequest(Refused):
    pass


class KeyReused(Refused):
    pass


class NotPermitted(Refused):
    pass


class NotFound(Refused):
    pass


class NotPossible(Refused):
    pass


class NonceConflict(NotPossible):
    @property
    def should_retry(self) -> bool:
        return self.problem.get("shouldRetry") is True

    @property
    def current_nonce(self) -> int | None:
        return self.problem.get("currentNonce")

    @property
    def attempted_nonce(self) -> int | None:
        return self.problem.get("attemptedNonce")


class Overloaded(Refused):
    pass


_BY_STATUS = {401: NotPermitted, 403: NotPermitted, 404: NotFound, 409: NotPossible, 429: Overloaded, 503: Overloaded}


def refusal(status: int, problem: Mapping[str, Any]) -> Refused:
    if problem.get("code") == "idempotency_key_reused":
        return KeyReused(status, problem)
    if problem.get("code") == "nonce_conflict":
        return NonceConflict(status, problem)
    kind = _BY_STATUS.get(status) or (InvalidRequest if 400 <= status < 500 else Refused)
    return kind(status, problem)
