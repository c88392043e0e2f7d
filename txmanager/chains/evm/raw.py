"""Signed bytes that came from outside: who signed them, for which chain and number, and whether a node could take them.

Everything is read from the bytes alone. What is odd (another encoding of the same numbers, a malleable signature, no
chain id) is refused: the hash must name one transaction, and one chain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from coincurve import PublicKey

from txmanager.chains.evm.encoding import big_endian, decoded, encoded
from txmanager.chains.evm.intents import MAX_DATA, MAX_INIT_CODE
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.transaction import ACCESS_LIST, DYNAMIC, LEGACY, SET_CODE, Body, Read, read_raw
from txmanager.core.errors import InvalidInput, NotOurs
from txmanager.core.given import Given
from txmanager.core.models import Attempt
from txmanager.core.reservations import NONCE_LIMIT
from txmanager.signing.evm import keccak256

FIELD = "signedTransaction"
_HEX = re.compile(r"0x([0-9a-fA-F]{2})+\Z")
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_LENGTHS = {LEGACY: 9, ACCESS_LIST: 11, DYNAMIC: 12, SET_CODE: 13}
_NUMBERS = {
    LEGACY: (0, 1, 2, 4),
    ACCESS_LIST: (0, 1, 2, 3, 5),
    DYNAMIC: (0, 1, 2, 3, 4, 6),
    SET_CODE: (0, 1, 2, 3, 4, 6),
}
"""Which parts are numbers, beside the signature's three."""
_LISTS = {LEGACY: (), ACCESS_LIST: (7,), DYNAMIC: (8,), SET_CODE: (8, 9)}
_MOST = 2 * (MAX_DATA + 1024)


def read_given(text: object) -> Given:
    if not isinstance(text, str) or len(text) > _MOST + 2 or not _HEX.match(text):
        raise InvalidInput(FIELD, f"must be 0x and the hex digits of a signed transaction, at most {_MOST // 2} bytes")
    raw = bytes.fromhex(text[2:])
    kind, parts = parts_of(raw)
    transaction = read_raw(raw)
    chain_id, parity = chain_and_parity(kind, parts)
    _check(transaction.body, transaction.nonce, transaction.fees.max_fee, transaction.fees.tip)
    return Given(
        raw=raw,
        hash="0x" + keccak256(raw).hex(),
        nonce=transaction.nonce,
        sender=_sender(kind, parts, chain_id, parity),
        chain_id=chain_id,
        to="0x" + transaction.body.to.hex() if transaction.body.to else None,
        value=transaction.body.value,
        gas=transaction.body.gas,
        max_fee=transaction.fees.max_fee,
        tip=transaction.fees.tip,
        type=kind,
    )


def read_own(attempt: Attempt, lane: LaneId) -> Read:
    """What stored bytes of this lane's own key say. Whoever can write to the ledger can change them, and cannot sign
    them: so they must hash to the attempt's name and be signed by the lane's key, for its chain and this nonce."""

    def other(why: str) -> NotOurs:
        return NotOurs(attempt.nonce, attempt.hash, why)

    try:
        if "0x" + keccak256(attempt.raw).hex() != attempt.hash:
            raise other("they have another hash")
        kind, parts = parts_of(attempt.raw)
        chain_id, parity = chain_and_parity(kind, parts)
        sender, transaction = _sender(kind, parts, chain_id, parity), read_raw(attempt.raw)
    except (InvalidInput, IndexError) as error:
        raise other(f"they are no signed transaction ({error})") from None
    if (sender, chain_id) != (lane.address, lane.chain_id):
        raise other(f"they were signed by {sender} for chain {chain_id}")
    if transaction.nonce != attempt.nonce:
        raise other(f"they are for nonce {transaction.nonce}")
    return transaction


def parts_of(raw: bytes) -> tuple[int, list[Any]]:
    kind = LEGACY if raw[0] >= 0xC0 else raw[0]
    if kind not in _LENGTHS:
        raise InvalidInput(FIELD, f"is of type {kind}; types 0, 1, 2 and 4 are taken")
    payload = raw if kind == LEGACY else raw[1:]
    try:
        parts = decoded(payload)
    except ValueError:
        raise InvalidInput(FIELD, "is not a signed transaction of type 0, 1, 2 or 4") from None
    if not isinstance(parts, list) or len(parts) != _LENGTHS[kind]:
        raise InvalidInput(FIELD, f"is not a signed transaction of type {kind}; sign it before it is sent")
    if [n for n, part in enumerate(parts) if isinstance(part, list)] != list(_LISTS[kind]):
        raise InvalidInput(FIELD, "has a list where bytes belong, or bytes where a list belongs")
    for position in (*_NUMBERS[kind], -3, -2, -1):
        part = parts[position]
        if len(part) > 32 or part[:1] == b"\0":
            raise InvalidInput(FIELD, "has a number that is not in its shortest form; no node takes it")
    return kind, parts


def chain_and_parity(kind: int, parts: Sequence[Any]) -> tuple[int, int]:
    v = int.from_bytes(parts[-3], "big")
    if kind != LEGACY:
        if v > 1:
            raise InvalidInput(FIELD, "has a y parity other than 0 and 1")
        return int.from_bytes(parts[0], "big"), v
    if v < 35:
        raise InvalidInput(FIELD, "names no chain (EIP-155), so it could be replayed on another; sign it with chainId")
    return (v - 35) // 2, (v - 35) % 2


def _sender(kind: int, parts: Sequence[Any], chain_id: int, parity: int) -> str:
    return recover(parts, signing_digest(kind, parts, chain_id), parity)


def signing_digest(kind: int, parts: Sequence[Any], chain_id: int) -> bytes:
    """What was signed; a legacy transaction names its chain in it (EIP-155)."""
    if kind == LEGACY:
        return keccak256(encoded([*parts[:-3], big_endian(chain_id), b"", b""]))
    return keccak256(bytes((kind,)) + encoded(parts[:-3]))


def recover(parts: Sequence[Any], digest: bytes, parity: int) -> str:
    """The address whose key signed the digest."""
    r, s = (int.from_bytes(part, "big") for part in parts[-2:])
    if not 0 < r < _ORDER or not 0 < s <= _ORDER // 2:
        raise InvalidInput(FIELD, "has a signature that no node takes (r or s out of range, or the high s)")
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes((parity,))
    try:
        key = PublicKey.from_signature_and_message(signature, digest, hasher=None)
    except Exception:  # whatever libsecp256k1's binding raises: it is no signature
        raise InvalidInput(FIELD, "has a signature of nobody") from None
    return "0x" + keccak256(key.format(compressed=False)[1:])[12:].hex()


def _check(body: Body, nonce: int, max_fee: int, tip: int) -> None:
    """What every node refuses, decided here: after it was accepted, nobody could take the number back."""
    if nonce >= NONCE_LIMIT:
        raise InvalidInput("nonce", "is beyond what any account can reach")
    if len(body.to) not in (0, 20):
        raise InvalidInput("to", "must have 20 bytes, or none to create a contract")
    if len(body.data) > MAX_DATA:
        raise InvalidInput("data", f"has {len(body.data)} bytes; nodes take at most {MAX_DATA}")
    if not body.to and len(body.data) > MAX_INIT_CODE:
        raise InvalidInput("data", f"creates a contract with more than {MAX_INIT_CODE} bytes of code")
    if body.type == SET_CODE and (not body.to or not body.authorizations):
        raise InvalidInput(FIELD, "of type 4 needs a receiver and an authorization")
    if tip > max_fee:
        raise InvalidInput("maxPriorityFeePerGas", f"is {tip}, more than maxFeePerGas, which is {max_fee}")
    if not max_fee:
        raise InvalidInput("maxFeePerGas", "must be at least 1 wei")
    if body.gas < (least := intrinsic_gas(body)):
        raise InvalidInput("gasLimit", f"is {body.gas}; such a transaction costs at least {least}")


def intrinsic_gas(body: Body) -> int:
    """The least that any such transaction costs before it does anything; chains may ask for more, none for less."""
    zeros = body.data.count(0)
    gas = 21_000 + 4 * zeros + 16 * (len(body.data) - zeros)
    if not body.to:
        gas += 32_000 + 2 * ((len(body.data) + 31) // 32)
    gas += sum(2_400 + 1_900 * len(keys) for _, keys in body.access_list)
    return gas + 12_500 * len(body.authorizations)
