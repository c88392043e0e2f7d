"""A value that never prints: not in `repr`, in logs, in tracebacks that show arguments, in JSON or in pickles."""

from __future__ import annotations

import hmac
from typing import NoReturn


class Secret:
    """Holds secret bytes; `reveal` is the only way out, so that every use can be found by its name."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes | str) -> None:
        self._value = value.encode() if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __len__(self) -> int:
        return len(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied out of the process")
