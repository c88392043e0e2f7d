"""Transactions as values: what is signed, how it becomes bytes, and how bytes become it again.

Types 0, 1, 2 and 4 are encoded here; the tests hold each of them to eth-account's bytes. A replacement is the old bytes
read back with other fees, so nothing of what the intent does can change between attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from txmanager.chains.evm.encoding import big_endian, decoded, listed, string
from txmanager.core.errors import InvalidInput
from txmanager.core.funds import Cost
from txmanager.core.values import value
from txmanager.signing.evm import keccak256
from txmanager.signing.signer import InstantSigner, SigningRequest

LEGACY, ACCESS_LIST, DYNAMIC, SET_CODE = 0, 1, 2, 4
TYPES = (LEGACY, ACCESS_LIST, DYNAMIC, SET_CODE)

USUAL_GAS = 5_000_000
"""A large deployment; more than this is nothing that every lane has to have funds for."""

AccessList = tuple[tuple[bytes, tuple[bytes, ...]], ...]
"""(address, storage keys) each."""
Authorizations = tuple[tuple[int, bytes, int, int, int, int], ...]
"""(chain id, address, nonce, y parity, r, s) each, signed by the accounts that delegate."""


@value(frozen=True, slots=True)
class Fees:
    """What is paid per unit of gas, in wei. A gas price is both at once."""

    max_fee: int
    tip: int


@value(frozen=True, slots=True)
class Body:
    """What a transaction does, without its place (nonce) and its price (fees)."""

    to: bytes
    """20 bytes, or none to create a contract."""
    value: int
    data: bytes
    gas: int
    type: int = DYNAMIC
    access_list: AccessList = ()
    authorizations: Authorizations = ()
    max_fee_limit: int | None = None
    """What the caller allows at most per unit of gas; not part of the bytes."""

    def cost(self, fees: Fees) -> Cost:
        """What a node wants the sender to have: every unit of gas at the highest price. (A roll-up's charge for data
        comes on top; nobody knows it before.)"""
        return Cost(self.gas * fees.max_fee, self.value, min(self.gas, USUAL_GAS) * fees.max_fee)


@value(frozen=True, slots=True)
class Signed:
    raw: bytes
    hash: str


# -- encoding


def _access(entries: AccessList) -> bytes:
    return listed(b"".join(listed(string(a) + listed(b"".join(string(k) for k in keys))) for a, keys in entries))


def _authorized(entries: Authorizations) -> bytes:
    return listed(b"".join(listed(_items(c) + string(a) + _items(n, y, r, s)) for c, a, n, y, r, s in entries))


def _items(*numbers: int) -> bytes:
    return b"".join([string(big_endian(n)) for n in numbers])


# -- unsigned, digest, assembled: three steps, because the signature may come from elsewhere


@value(frozen=True, slots=True)
class Unsigned:
    type: int
    chain_id: int
    payload: bytes
    """The encoded fields, without the head of their list."""

    def request(self, *, urgent: bool = False) -> SigningRequest:
        if self.type == LEGACY:
            unsigned = listed(self.payload + _items(self.chain_id, 0, 0))  # EIP-155
        else:
            unsigned = bytes((self.type,)) + listed(self.payload)
        return SigningRequest(unsigned, keccak256(unsigned), urgent)

    def assemble(self, signature: bytes) -> Signed:
        """`signature` is r, low s and the recovery id: 65 bytes."""
        parity = signature[64]
        last = string(signature[:32].lstrip(b"\0")) + string(signature[32:64].lstrip(b"\0"))
        if self.type == LEGACY:
            raw = listed(self.payload + _items(2 * self.chain_id + 35 + parity) + last)
        else:
            raw = bytes((self.type,)) + listed(self.payload + _items(parity) + last)
        return Signed(raw, "0x" + keccak256(raw).hex())


def encode(chain_id: int, nonce: int, fees: Fees, body: Body) -> Unsigned:
    if body.type in (LEGACY, ACCESS_LIST):
        numbers: tuple[int, ...] = (nonce, fees.max_fee, body.gas)
    else:
        numbers = (nonce, fees.tip, fees.max_fee, body.gas)
    parts = [_items(*numbers), string(body.to), string(big_endian(body.value)), string(body.data)]
    if body.type != LEGACY:
        parts.insert(0, _items(chain_id))
        parts.append(_access(body.access_list) if body.access_list else b"\xc0")
    if body.type == SET_CODE:
        parts.append(_authorized(body.authorizations))
    return Unsigned(body.type, chain_id, b"".join(parts))


def sign_any(chain_id: int, nonce: int, fees: Fees, body: Body, signer: InstantSigner) -> Signed:
    """With a key in memory."""
    unsigned = encode(chain_id, nonce, fees, body)
    return unsigned.assemble(signer.sign(unsigned.request().digest))


# -- reading back what was signed


@value(frozen=True, slots=True)
class Read:
    nonce: int
    fees: Fees
    body: Body


def read_raw(raw: bytes) -> Read:
    """What signed bytes say. They are our own, so anything odd is damage."""
    try:
        kind = LEGACY if raw[0] >= 0xC0 else raw[0]
        parts: Any = decoded(raw if kind == LEGACY else raw[1:])
        return read_parts(kind, parts)
    except (IndexError, ValueError, TypeError):
        raise InvalidInput("raw", "is not a signed transaction of type 0, 1, 2 or 4") from None


def read_parts(kind: int, parts: Sequence[Any]) -> Read:
    """Signed or not: the signature's parts stand behind all others."""
    number = _int
    if kind == LEGACY:
        nonce, price, gas, to, value, data = parts[:6]
        fees = Fees(number(price), number(price))
        return Read(number(nonce), fees, Body(to, number(value), data, number(gas), LEGACY))
    if kind == ACCESS_LIST:
        _, nonce, price, gas, to, value, data, access = parts[:8]
        fees = Fees(number(price), number(price))
        body = Body(to, number(value), data, number(gas), kind, _entries(access))
        return Read(number(nonce), fees, body)
    if kind not in (DYNAMIC, SET_CODE):
        raise ValueError("an unknown type")
    _, nonce, tip, max_fee, gas, to, value, data, access = parts[:9]
    body = Body(to, number(value), data, number(gas), kind, _entries(access))
    if kind == SET_CODE:
        signed = tuple((number(c), a, number(n), number(y), number(r), number(s)) for c, a, n, y, r, s in parts[9])
        body = replace(body, authorizations=signed)
    return Read(number(nonce), Fees(number(max_fee), number(tip)), body)


def _int(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _entries(access: Sequence[Any]) -> AccessList:
    return tuple((address, tuple(keys)) for address, keys in access)
