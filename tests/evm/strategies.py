"""Transactions of every type, with the awkward sizes: empty, one byte below and above 0x80, 55 and 56 bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from txmanager.chains.evm.names import checksummed
from txmanager.chains.evm.transaction import ACCESS_LIST, DYNAMIC, LEGACY, SET_CODE, Body, Fees

numbers = st.one_of(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x100, 2**56, 2**64 - 1]), st.integers(0, 2**64 - 1))
wei = st.one_of(numbers, st.integers(0, 2**200))
addresses = st.binary(min_size=20, max_size=20)
calldata = st.one_of(
    st.sampled_from([b"", b"\0", b"\x7f", b"\x80", b"a" * 55, b"a" * 56, b"a" * 255, b"a" * 256, b"\0" * 65536]),
    st.binary(max_size=300),
)
keys = st.binary(min_size=32, max_size=32)
access_lists = st.lists(st.tuples(addresses, st.lists(keys, max_size=3).map(tuple)), max_size=3).map(tuple)
words = st.integers(1, 2**256 - 1)
authorizations = st.lists(
    st.tuples(st.integers(0, 2**64), addresses, st.integers(0, 2**64 - 1), st.integers(0, 1), words, words),
    min_size=1,
    max_size=2,
).map(tuple)


@st.composite
def fees(draw: st.DrawFn) -> Fees:
    tip = draw(st.integers(0, 2**80))
    return Fees(tip + draw(st.integers(0, 2**80)), tip)


@st.composite
def bodies(draw: st.DrawFn, type: int) -> Body:
    to = draw(addresses) if type == SET_CODE else draw(st.one_of(st.just(b""), addresses))
    return Body(
        to=to,
        value=draw(wei),
        data=draw(calldata),
        gas=draw(st.integers(21_000, 2**63)),
        type=type,
        access_list=draw(access_lists) if type != LEGACY else (),
        authorizations=draw(authorizations) if type == SET_CODE else (),
    )


any_body = st.sampled_from([LEGACY, ACCESS_LIST, DYNAMIC, SET_CODE]).flatmap(bodies)
private_keys = st.integers(1, 2**255).map(lambda n: n.to_bytes(32, "big"))


def as_eth_account_wants_it(chain_id: int, nonce: int, fees: Fees, body: Body) -> dict[str, Any]:
    """The oracle's own form of a transaction."""
    told: dict[str, Any] = {
        "chainId": chain_id,
        "nonce": nonce,
        "gas": body.gas,
        "to": checksummed(body.to.hex()) if body.to else "",
        "value": body.value,
        "data": body.data,
    }
    if body.type in (LEGACY, ACCESS_LIST):
        told["gasPrice"] = fees.max_fee
    else:
        told |= {"maxFeePerGas": fees.max_fee, "maxPriorityFeePerGas": fees.tip}
    if body.type != LEGACY:
        told["type"] = body.type
        told["accessList"] = [
            {"address": checksummed(a.hex()), "storageKeys": ["0x" + k.hex() for k in keys]}
            for a, keys in body.access_list
        ]
    if body.type == SET_CODE:
        names = ("chainId", "address", "nonce", "yParity", "r", "s")
        told["authorizationList"] = [
            dict(zip(names, (c, "0x" + a.hex(), n, y, r, s), strict=True)) for c, a, n, y, r, s in body.authorizations
        ]
    return told
