"""Our RLP against the library's, for everything that a transaction can hold, and for any bytes at all."""

from __future__ import annotations

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st

from txmanager.chains.evm.encoding import big_endian, decoded, encoded

ITEMS = st.recursive(st.binary(max_size=300), lambda inner: st.lists(inner, max_size=5), max_leaves=20)


def depth(item: object) -> int:
    return 1 + max(map(depth, item), default=0) if isinstance(item, list) else 0


@given(ITEMS.filter(lambda item: depth(item) <= 8))
def test_what_is_encoded_is_the_librarys_and_comes_back(item):
    data = encoded(item)
    assert data == rlp.encode(item)
    assert decoded(data) == item


@given(st.binary(max_size=80) | ITEMS.map(rlp.encode).flatmap(lambda data: st.sampled_from([data[:-1], data + b"\0"])))
def test_only_what_the_library_takes_in_its_one_form_is_read(data):
    try:
        expected = rlp.decode(data)
        taken = rlp.encode(expected) == data and depth(expected) <= 8
    except rlp.DecodingError:
        taken = False
    if taken:
        assert decoded(data) == expected
    else:
        with pytest.raises(ValueError):
            decoded(data)


def test_a_number_has_no_leading_zero():
    assert [big_endian(n) for n in (0, 1, 255, 256)] == [b"", b"\1", b"\xff", b"\1\0"]


def test_lists_in_lists_cost_no_stack():
    data = b""
    for _ in range(5_000):
        data = encoded_list(data)
    with pytest.raises(ValueError, match="too deep"):
        decoded(data)


def encoded_list(payload: bytes) -> bytes:
    return bytes((0xC0 + len(payload),)) + payload if len(payload) < 56 else _long(payload)


def _long(payload: bytes) -> bytes:
    size = big_endian(len(payload))
    return bytes((0xF7 + len(size),)) + size + payload
