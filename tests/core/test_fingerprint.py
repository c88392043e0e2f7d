"""Equal requests have equal fingerprints, however they were written; different ones do not."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.errors import InvalidInput
from txmanager.core.fingerprint import MAX_DEPTH, VERSION, fingerprint

SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
PAYLOADS = st.dictionaries(st.text(), VALUES, max_size=5)


def reversed_keys(value):
    if isinstance(value, dict):
        return OrderedDict((name, reversed_keys(value[name])) for name in reversed(list(value)))
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def as_numbers(value):
    """The payload by its JSON meaning: numbers by value, but never mixed up with booleans."""
    if isinstance(value, dict):
        return {"object": {name: as_numbers(item) for name, item in value.items()}}
    if isinstance(value, list):
        return {"array": [as_numbers(item) for item in value]}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, float):
        return Decimal(repr(value))
    return Decimal(value) if isinstance(value, int) else value


@given(PAYLOADS)
def test_order_of_keys_does_not_matter(payload):
    assert fingerprint("k", payload) == fingerprint("k", reversed_keys(payload))


@given(PAYLOADS)
def test_white_space_and_escapes_do_not_matter(payload):
    compact = json.loads(json.dumps(payload, separators=(",", ":")))
    spread = json.loads(json.dumps(payload, indent=4, ensure_ascii=False))
    assert fingerprint("k", compact) == fingerprint("k", spread) == fingerprint("k", payload)


@given(st.integers(-(2**53), 2**53), st.integers(0, 30))
def test_form_of_a_number_does_not_matter(number, zeros):
    forms = [number, float(number), Decimal(number), Decimal(f"{number}.{'0' * zeros}"), Decimal(f"{number * 10}e-1")]
    assert len({fingerprint("k", {"n": form}) for form in forms}) == 1
    assert fingerprint("k", [Decimal(f"{number}e{zeros}")]) == fingerprint("k", [number * 10**zeros])


@given(PAYLOADS, PAYLOADS)
def test_different_payloads_have_different_fingerprints(one, other):
    assert (fingerprint("k", one) == fingerprint("k", other)) == (as_numbers(one) == as_numbers(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1, True),
        (0, False),
        (0, None),
        ("", None),
        ([], {}),
        (["a", "b"], ["a,b"]),
        (["a", ["b"]], [["a"], "b"]),
        ({"a": {"b": 1}}, {"a": 1, "b": 1}),
        ({"a": None}, {}),
        (0.1, 0.10000000000000002),
        (183000000000123, 183000000000124),
        (10**30, 10**30 + 1),
        ("é", "e\u0301"),
    ],
)
def test_look_alikes_are_told_apart(one, other):
    assert fingerprint("k", {"v": one}) != fingerprint("k", {"v": other})


def test_the_kind_is_part_of_the_request():
    assert fingerprint("near.transfer", {}) != fingerprint("near.call", {})


def test_the_algorithm_is_pinned():
    """A retry may arrive after an upgrade: a changed fingerprint would turn it into a conflict."""
    payload = {"new_account_id": "alice.testnet", "initial_balance": "1000000000000000000000000", "n": [1, 2.5, None]}
    assert fingerprint("near.create_account", payload) == "v1:55abaebdc24101dd718eea9511bcf66fb45f5c70"
    assert VERSION == "v1"


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({"n": float("nan")}, "NaN"),
        ({"n": Decimal("Infinity")}, "NaN"),
        ({"n": Decimal("1e999")}, "400 digits"),
        ({"n": Decimal("1e400")}, "400 digits"),
        ({"n": 10**400}, "400 digits"),
        ({"n": -(10**5000)}, "400 digits"),
        ({1: "a"}, "keys must be strings"),
        ({1: "a", "b": 2}, "keys must be strings"),
        ({"b": b"bytes"}, "bytes is not a JSON value"),
        ({"s": {1, 2}}, "set is not a JSON value"),
    ],
)
def test_what_is_not_json_is_refused_in_words(payload, problem):
    with pytest.raises(InvalidInput, match=problem) as caught:
        fingerprint("k", payload)
    assert caught.value.field == "payload"


def test_numbers_up_to_the_limit_are_one_whatever_their_form():
    assert fingerprint("k", [10**399]) == fingerprint("k", [Decimal("1e399")])


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["arrays", "objects"])
def test_depth_is_limited(wrap):
    deep: object = 1
    for _ in range(MAX_DEPTH):
        deep = wrap(deep)
    fingerprint("k", deep)
    with pytest.raises(InvalidInput, match="nested deeper"):
        fingerprint("k", wrap(deep))


def test_a_fingerprint_is_the_same_in_every_release():
    payload = {"b": [True, False, None, 1.5, "ü"], "a": {"n": 10**23, "t": "1"}}
    text = '"k"\n{"a":{"n":100000000000000000000000,"t":"1",},"b":[true,false,null,15e-1,"ü",],}'
    assert fingerprint("k", payload) == f"{VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"
