"""JSON is read exactly: what cannot be kept as it was written is refused, never rounded."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.api.bodies import read_object
from txmanager.api.problems import Malformed
from txmanager.core.errors import InvalidInput

numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), values))
def test_what_was_written_is_what_is_read(value):
    assert read_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "1000000000000000000000000", "0.12345678901234567890"]
)
def test_a_number_that_would_change_is_refused_with_the_way_out(number):
    with pytest.raises(InvalidInput, match="as a string"):
        read_object(b'{"payload": {"amount": %s}}' % number.encode())


def test_the_same_number_in_quotes_is_fine():
    assert read_object(b'{"a": "1000000000000000000000000"}') == {"a": "1000000000000000000000000"}


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": "\\ud800"}', b"\xff\xfe", b"{" * 100_000],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_json_object_is_malformed(body):
    with pytest.raises(Malformed):
        read_object(body)
