"""DelegateV2 (action 14), which near-kit cannot read: turned into the first form, with what that form lacks kept apart.

Walks the bytes once, by the lengths that the format announces. Bytes that end early are left for near-kit to refuse.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

_KEYS = {0: 32, 1: 64, 2: 1952}
_SIGNATURES = {0: 64, 1: 65, 2: 3309}
_TAG, _FIRST_TAG = 14, 8
_SIGNED_AS = (2**30 + 611).to_bytes(4, "little")


class Second(NamedTuple):
    """What a DelegateV2 says beyond the first form: the lane of a gas key, and what its signature is over."""

    nonce_index: int | None
    digest: bytes


class _Walk:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def skip(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.raw):
            raise IndexError
        return self.raw[self.at - count : self.at]

    def u8(self) -> int:
        return self.skip(1)[0]

    def u32(self) -> int:
        return int.from_bytes(self.skip(4), "little")

    def text(self) -> None:
        self.skip(self.u32())

    def key(self) -> None:
        self.skip(_KEYS[self.u8()])

    def permission(self) -> None:
        kind = self.u8()
        if kind in (2, 3):
            self.skip(18)
        if kind in (0, 2):
            self.skip(16 if self.u8() else 0)
            self.text()
            for _ in range(self.u32()):
                self.text()

    def action(self) -> None:
        kind = self.u8()
        if kind in (1, 7):
            self.text()
        elif kind == 2:
            self.text()
            self.text()
            self.skip(24)
        elif kind == 3:
            self.skip(16)
        elif kind == 4:
            self.skip(16)
            self.key()
        elif kind == 5:
            self.key()
            self.skip(8)
            self.permission()
        elif kind == 6:
            self.key()
        elif kind in (12, 13):
            self.key()
            self.skip(16)
        elif kind != 0:
            raise KeyError(kind)


def first_form(raw: bytes) -> tuple[bytes, dict[int, Second]]:
    """The transaction with each DelegateV2 written as a delegate of the first form; what was taken out, by action."""
    walk, found, out, copied = _Walk(raw), dict[int, Second](), bytearray(), 0
    try:
        version_1 = raw[:1] == b"\x01"
        walk.skip(1 if version_1 else 0)
        walk.text()
        walk.key()
        walk.skip(8 if not version_1 else {0: 8, 1: 10}[walk.u8()])
        walk.text()
        walk.skip(32)
        for number in range(walk.u32()):
            if raw[walk.at] == _FIRST_TAG:
                _skip_first(walk)
                continue
            if raw[walk.at] != _TAG:
                walk.action()
                continue
            out += raw[copied : walk.at] + bytes([_FIRST_TAG])
            begin = walk.at + 1
            walk.skip(1)
            if walk.u8() != 0:
                raise KeyError("an unknown version of the delegate")
            body = walk.at
            walk.text()
            walk.text()
            for _ in range(walk.u32()):
                walk.action()
            out += raw[body : walk.at]
            indexed = {0: False, 1: True}[walk.u8()]
            out += walk.skip(8)
            index = int.from_bytes(walk.skip(2), "little") if indexed else None
            rest = walk.at
            walk.skip(8)
            walk.key()
            out += raw[rest : walk.at]
            found[number] = Second(index, hashlib.sha256(_SIGNED_AS + raw[begin : walk.at]).digest())
            copied = walk.at
            walk.skip(_SIGNATURES[walk.u8()])
    except (IndexError, KeyError):
        return raw, {}
    return bytes(out) + raw[copied:], found


def _skip_first(walk: _Walk) -> None:
    walk.skip(1)
    walk.text()
    walk.text()
    for _ in range(walk.u32()):
        walk.action()
    walk.skip(16)
    walk.key()
    walk.skip(_SIGNATURES[walk.u8()])
