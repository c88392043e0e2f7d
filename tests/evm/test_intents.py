"""What callers may ask for: every wrong field is named with its fix, and examples in the schema are valid."""

from __future__ import annotations

import pytest

from txmanager.chains.evm.intents import KINDS, parse_payload
from txmanager.chains.evm.names import LaneId, check_address, checksummed
from txmanager.chains.evm.reading import read
from txmanager.core.errors import InvalidInput

BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
MIXED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_of_the_schema_are_valid(kind):
    for example in KINDS[kind].model_json_schema()["examples"]:
        parse_payload(kind, example)


def test_amounts_may_be_decimal_hex_or_numbers():
    for value in (255, "255", "0xff"):
        assert parse_payload("evm.transfer", {"to": BOB, "value": value}).value == 255


@pytest.mark.parametrize(
    ("payload", "field", "says"),
    [
        ({"to": "bob.near"}, "to", "40 hex digits"),
        ({"to": MIXED.replace("C5", "c5", 1)}, "to", "wrong checksum"),
        ({"to": BOB, "value": "-1"}, "value", "whole number of wei"),
        ({"to": BOB, "value": 1.5}, "value", "whole number of wei"),
        ({"to": BOB, "value": str(2**256)}, "value", "whole number of wei"),
        ({"to": BOB, "value": True}, "value", "whole number of wei"),
        ({"to": BOB, "data": "a9059cbb"}, "data", "must be 0x"),
        ({"to": BOB, "data": "0xabc"}, "data", "even number"),
        ({"to": BOB, "gas": "lots"}, "gas", "whole number of gas"),
        ({"to": BOB, "type": 3}, "type", "0, 1, 2 or 4"),
        ({"to": BOB, "nonce": 1}, "nonce", "not permitted"),
        ({}, "payload", "needs its code in `data`"),
        ({"data": "0x" + "00" * 49_153}, "payload", "the limit is 49152"),
        ({"to": BOB, "data": "0x" + "00" * 131_072}, "payload", "nodes take at most"),
        ({"to": BOB, "type": 0, "access_list": [{"address": BOB}]}, "payload", "needs type 1, 2 or 4"),
        ({"to": BOB, "type": 4}, "payload", "need each other"),
        ({"to": BOB, "simulate": False}, "payload", "needs `gas`"),
        ({"to": BOB, "max_fee_per_gas": 0}, "payload", "at least 1 wei"),
        ({"to": BOB, "access_list": [{"address": BOB, "storage_keys": ["0x1"]}]}, "access_list.0.storage_keys.0", "64"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(payload, field, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        parse_payload("evm.transaction", payload)
    assert caught.value.field == field


def test_kinds_of_other_chains_are_named():
    with pytest.raises(InvalidInput, match=r"evm\.transaction, evm\.transfer"):
        parse_payload("near.transfer", {})


def test_an_address_is_one_whatever_its_case():
    assert check_address("to", MIXED) == check_address("to", BOB) == BOB
    assert check_address("to", "0x" + BOB[2:].upper()) == BOB
    assert checksummed(BOB) == MIXED


def test_the_pools_limit_is_held_before_anything_is_accepted():
    told = read("evm.transfer", {"to": MIXED, "value": "5"}, 5)
    assert (told.receivers, told.deposit, told.derived_key) == ({BOB}, 5, None)
    assert told.refusal is None
    assert "max_deposit allows 4" in str(read("evm.transfer", {"to": BOB, "value": "5"}, 4).refusal)


@pytest.mark.parametrize("lane", ["evm:1", f"evm:0:{BOB}", f"evm:1:{MIXED}", f"near:1:{BOB}", f"evm:1:{BOB}:0"])
def test_a_lane_has_one_spelling(lane):
    with pytest.raises(InvalidInput):
        LaneId.parse(lane)
    assert str(LaneId.parse(f"evm:1:{BOB}")) == f"evm:1:{BOB}"
