"""Borsh, the part of it that NEAR transactions use. Writing is plain concatenation; reading never trusts a length."""

from __future__ import annotations

from struct import Struct

from txmanager.core.errors import InvalidInput

_U16, _U32, _U64 = Struct("<H"), Struct("<I"), Struct("<Q")
u16, u32, u64 = _U16.pack, _U32.pack, _U64.pack
U64_MAX = (1 << 64) - 1
U128_MAX = (1 << 128) - 1


def u128(value: int) -> bytes:
    return value.to_bytes(16, "little")


def blob(value: bytes) -> bytes:
    return u32(len(value)) + value


def string(value: str) -> bytes:
    return blob(value.encode())


class Reader:
    """Reads front to back; everything that does not fit is one clear error naming the byte."""

    __slots__ = ("_at", "_data", "_field")

    def __init__(self, data: bytes, field: str) -> None:
        self._data = data
        self._at = 0
        self._field = field

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise self.wrong(f"ends too early: {size} bytes wanted, {len(self._data) - self._at} left")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int(_U16.unpack(self.take(2))[0])

    def u32(self) -> int:
        return int(_U32.unpack(self.take(4))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(8))[0])

    def u128(self) -> int:
        return int.from_bytes(self.take(16), "little")

    def blob(self) -> bytes:
        return self.take(self.u32())

    def string(self) -> str:
        try:
            return self.blob().decode()
        except UnicodeDecodeError:
            raise self.wrong("a string is not UTF-8") from None

    def count(self, least: int) -> int:
        """The length of a list whose items have at least `least` bytes."""
        number = self.u32()
        if number * least > len(self._data) - self._at:
            raise self.wrong(f"a list claims {number} items, more than fit into the rest")
        return number

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.wrong(f"{len(self._data) - self._at} bytes are left over")

    def wrong(self, problem: str) -> InvalidInput:
        return InvalidInput(self._field, f"is not valid borsh at byte {self._at}: {problem}")
