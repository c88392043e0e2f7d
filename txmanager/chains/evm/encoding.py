"""RLP as transactions have it: numbers, strings and lists. One value has one encoding; any other is refused.

A wallet's bytes are read on the gateway's hot path, where a general library took most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

Item = bytes | Sequence["Item"]
Decoded = bytes | list["Decoded"]

_DEEPEST = 8
"""Lists in lists; a transaction has four levels."""


def big_endian(value: int) -> bytes:
    """The shortest form; nothing for 0."""
    return b"" if value == 0 else value.to_bytes((value.bit_length() + 7) // 8, "big")


def string(data: bytes) -> bytes:
    size = len(data)
    if size == 1 and data[0] < 0x80:
        return data
    if size < 56:
        return bytes((0x80 + size,)) + data
    length = big_endian(size)
    return bytes((0xB7 + len(length),)) + length + data


def listed(payload: bytes) -> bytes:
    """A list whose items are encoded already."""
    size = len(payload)
    if size < 56:
        return bytes((0xC0 + size,)) + payload
    length = big_endian(size)
    return bytes((0xF7 + len(length),)) + length + payload


def encoded(item: Item) -> bytes:
    return string(item) if isinstance(item, bytes) else listed(b"".join([encoded(one) for one in item]))


def decoded(data: bytes) -> Decoded:
    """The one item that all of these bytes encode; raises `ValueError`."""
    item, end = _item(data, 0, len(data), 0)
    if end != len(data):
        raise ValueError("bytes are left over")
    return item


def _item(data: bytes, at: int, end: int, depth: int) -> tuple[Decoded, int]:
    if at >= end:
        raise ValueError("too short")
    first = data[at]
    if first < 0x80:
        return data[at : at + 1], at + 1
    if first < 0xC0:
        begin, after = _span(data, at, end, first - 0x80)
        if after - begin == 1 and data[begin] < 0x80:
            raise ValueError("a single byte has a length")
        return data[begin:after], after
    if depth == _DEEPEST:
        raise ValueError("lists are nested too deep")
    begin, after = _span(data, at, end, first - 0xC0)
    items: list[Decoded] = []
    while begin < after:
        item, begin = _item(data, begin, after, depth + 1)
        items.append(item)
    return items, after


def _span(data: bytes, at: int, end: int, size: int) -> tuple[int, int]:
    """Where the payload begins and ends; `size` below 56 is its length, above it how many bytes tell the length."""
    begin = at + 1
    if size > 55:
        length, begin = data[begin : begin + size - 55], begin + size - 55
        size = int.from_bytes(length, "big")
        if size < 56 or length[0] == 0:
            raise ValueError("a length is not in its shortest form")
    if begin + size > end:
        raise ValueError("too short")
    return begin, begin + size
