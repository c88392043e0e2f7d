"""What the network refuses, each error carrying the protocol's own JSON.

InvalidTx       the transaction is rejected before anything is spent (RPC or chunk producer)
ActionFailure   an action failed inside a receipt; gas is spent, state is rolled back
Unknown         a look-up found nothing (block, chunk, account, transaction)
DecodeError     the posted bytes are not a transaction
"""

from __future__ import annotations

from typing import Any


class DevnetError(Exception):
    pass


class InvalidTx(DevnetError):
    def __init__(self, error: Any) -> None:
        super().__init__(error)
        self.error = error

    @property
    def name(self) -> str:
        return self.error if isinstance(self.error, str) else str(next(iter(self.error)))


class ActionFailure(DevnetError):
    def __init__(self, kind: Any, gas_burnt: int = 0) -> None:
        super().__init__(kind)
        self.kind = kind
        self.gas_burnt = gas_burnt


class Unknown(DevnetError):
    def __init__(self, what: str, key: Any) -> None:
        super().__init__(f"{what} {key} is not known here")
        self.what = what
        self.key = key


class DecodeError(DevnetError):
    pass
