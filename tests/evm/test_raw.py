"""Bytes from outside are read as eth-account reads them, and whatever is odd about them is refused by name."""

from __future__ import annotations

import pytest
import rlp
from eth_account import Account
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evm.stage import CHAIN_ID, new_signer
from txmanager.chains.evm.given import prepare_given
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.raw import read_given
from txmanager.core.chain import Impossible
from txmanager.core.errors import InvalidInput
from txmanager.core.models import new_intent

KEY = "0x" + "4c" * 32
SENDER = Account.from_key(KEY).address.lower()
BOB = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def fields(kind: int, **more):
    told = {"nonce": 7, "gas": 60_000, "to": BOB, "value": 5, "data": "0x01", "chainId": CHAIN_ID}
    told |= {"gasPrice": 9} if kind < 2 else {"maxFeePerGas": 9, "maxPriorityFeePerGas": 2, "type": kind}
    if kind == 1:
        told |= {"type": 1, "accessList": []}
    return told | more


def signed(**told) -> str:
    return "0x" + bytes(Account.sign_transaction(told, KEY).raw_transaction).hex()


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from([0, 1, 2]),
    nonce=st.integers(0, 2**63 - 2),
    value=st.integers(0, 2**256 - 1),
    data=st.binary(max_size=80),
    chain=st.integers(1, 2**40),
)
def test_sender_hash_and_fields_are_what_eth_account_says(kind, nonce, value, data, chain):
    told = fields(kind, nonce=nonce, value=value, data=data, chainId=chain)
    made = Account.sign_transaction(told, KEY)
    read = read_given("0x" + bytes(made.raw_transaction).hex())
    assert (read.sender, read.hash) == (SENDER, "0x" + bytes(made.hash).hex())
    assert (read.nonce, read.value, read.chain_id, read.to) == (nonce, value, chain, BOB.lower())
    assert (read.gas, read.max_fee, read.tip) == (60_000, 9, 9 if kind < 2 else 2)


def test_a_delegation_is_read_too():
    authorization = Account.sign_authorization({"chainId": CHAIN_ID, "address": BOB, "nonce": 8}, KEY)
    raw = signed(**fields(4, gas=100_000, authorizationList=[authorization]))
    assert (read_given(raw).sender, read_given(raw).type) == (SENDER, 4)


def tampered(change) -> str:
    raw = bytes.fromhex(signed(**fields(2))[2:])
    parts = rlp.decode(raw[1:])
    change(parts)
    return "0x02" + rlp.encode(parts).hex()


def high_s(parts) -> None:
    parts[-1] = (_ORDER - int.from_bytes(parts[-1], "big")).to_bytes(32, "big")
    parts[-3] = b"" if parts[-3] else b"\x01"


def padded_nonce(parts) -> None:
    parts[1] = b"\0" + parts[1]


def no_signature(parts) -> None:
    del parts[-3:]


def odd_parity(parts) -> None:
    parts[-3] = b"\x02"


def zero_r(parts) -> None:
    parts[-2] = b""


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("0x", "hex digits"),
        (7, "hex digits"),
        ("0xzz", "hex digits"),
        ("0x03c0", "type 3"),
        ("0x02c0", "not a signed transaction"),
        ("0x02ff", "not a signed transaction"),
        (signed(**fields(2)) + "00", "not a signed transaction"),
        (signed(**{k: v for k, v in fields(0).items() if k != "chainId"}), "names no chain"),
        (signed(**fields(2, gas=21_000)), "gasLimit: is 21000; such a transaction costs at least 21016"),
        (signed(**fields(2, maxFeePerGas=0, maxPriorityFeePerGas=0)), "at least 1 wei"),
        (tampered(high_s), "the high s"),
        (tampered(zero_r), "r or s out of range"),
        (tampered(padded_nonce), "shortest form"),
        (tampered(no_signature), "sign it before"),
        (tampered(odd_parity), "y parity"),
    ],
)
def test_what_is_odd_about_bytes_is_refused_by_name(raw, says):
    with pytest.raises(InvalidInput, match=says):
        read_given(raw)


def test_a_lane_takes_only_bytes_of_its_own_address_and_chain():
    lane = LaneId(CHAIN_ID, SENDER)

    def prepared(kind: str, raw: str, lane: LaneId = lane):
        return prepare_given(new_intent(key="raw:x", pool="p", kind=kind, payload={"raw": raw}), lane)

    assert not isinstance(prepared("evm.raw", signed(**fields(2))), Impossible)
    for answer, says in (
        (prepared("evm.raw", signed(**fields(2, chainId=1))), "is for chain 1"),
        (prepared("evm.raw", signed(**fields(2)), LaneId(CHAIN_ID, new_signer().address)), "was signed by"),
        (prepared("evm.transfer", signed(**fields(2))), "hold the key"),
    ):
        assert isinstance(answer, Impossible)
        assert says in answer.error["message"]
