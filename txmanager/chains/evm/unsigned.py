"""What unsigned bytes do, for a signer that reads what it signs. Nothing here asks a node.

Only the types that lanes send are read (0 with EIP-155, 1, 2 and 4), and only in the one encoding that they have. So no
message, no typed data and no authorization of EIP-7702 passes for a transaction.
"""

from __future__ import annotations

import re
from typing import Any

from txmanager.chains.evm.encoding import decoded
from txmanager.chains.evm.names import check_address
from txmanager.chains.evm.offered import MAX_SIZE
from txmanager.chains.evm.transaction import (
    ACCESS_LIST,
    DYNAMIC,
    LEGACY,
    SET_CODE,
    Read,
    encode,
    read_parts,
)
from txmanager.core.errors import InvalidInput
from txmanager.core.signing_policy import Effects
from txmanager.settings.family import SignerSide
from txmanager.signing.evm import keccak256

_LENGTHS = {LEGACY: 9, ACCESS_LIST: 8, DYNAMIC: 9, SET_CODE: 10}
_LISTS: dict[int, list[int]] = {LEGACY: [], ACCESS_LIST: [7], DYNAMIC: [8], SET_CODE: [8, 9]}
"""Which of the fields are lists."""
_CHEAPEST_GAS = 21_000
_SELECTOR = re.compile(r"0x[0-9a-fA-F]{8}\Z")
TRANSFER, CALL, CREATE, DELEGATE_CODE = "transfer", "call", "create", "set_code"


def read_unsigned(unsigned: bytes) -> tuple[int, Read]:
    """The chain id, and the rest."""
    if not unsigned:
        raise InvalidInput("unsigned", "is empty; send the whole transaction, not its digest")
    if len(unsigned) > MAX_SIZE:  # before it is read: reading takes time by its size, and others wait
        raise InvalidInput("unsigned", f"has {len(unsigned)} bytes; nodes take {MAX_SIZE}")
    kind = LEGACY if unsigned[0] >= 0xC0 else unsigned[0]
    if kind not in _LENGTHS or (kind == LEGACY and unsigned[0] < 0xC0):
        raise InvalidInput("unsigned", f"is of type {kind}; types 0, 1, 2 and 4 are signed")
    try:
        parts: Any = decoded(unsigned if kind == LEGACY else unsigned[1:])
        if not isinstance(parts, list) or len(parts) != _LENGTHS[kind]:
            raise ValueError("another number of fields")
        if [n for n, part in enumerate(parts) if isinstance(part, list)] != _LISTS[kind]:
            raise ValueError("a list where bytes belong, or bytes where a list belongs")
        transaction = read_parts(kind, parts)
        chain_id = int.from_bytes(parts[6 if kind == LEGACY else 0], "big")
    except (IndexError, ValueError, TypeError, AttributeError):
        raise InvalidInput("unsigned", f"is not an unsigned transaction of type {kind}") from None
    if len(transaction.body.to) not in (0, 20):
        raise InvalidInput("unsigned", "has a receiver that is not an address")
    # Whatever reads differently when it is written again means something else to somebody else.
    if (
        not chain_id
        or encode(chain_id, transaction.nonce, transaction.fees, transaction.body).request().unsigned != unsigned
    ):
        raise InvalidInput("unsigned", "is not encoded as nodes do, or names no chain")
    return chain_id, transaction


def read_effects(unsigned: bytes, address: str) -> Effects:
    chain_id, transaction = read_unsigned(unsigned)
    body, price = transaction.body, max(transaction.fees.max_fee, transaction.fees.tip)
    receiver = "0x" + body.to.hex() if body.to else ""
    # An account that has code (EIP-7702) obeys whatever it tells itself. Without data it is a no-op.
    own = {CALL} if receiver == address and body.data else set()
    return Effects(
        slot=str(transaction.nonce),
        receivers=frozenset({receiver} - {"", address}),
        actions=frozenset(_actions(transaction) - ({TRANSFER, CALL} if receiver == address else set())),
        methods=frozenset({"0x" + body.data[:4].hex()} if receiver and body.data else ()),
        own_account=frozenset(own),
        value=body.value,
        fee=body.gas * price,
        least_fee=_CHEAPEST_GAS * price,
        chain_id=chain_id,
    )


def _actions(transaction: Read) -> set[str]:
    body = transaction.body
    found = {CALL if body.data else TRANSFER} if body.to else {CREATE}
    return found | ({DELEGATE_CODE} if body.authorizations or body.type == SET_CODE else set())


def _selector(entry: str) -> str:
    if not _SELECTOR.match(entry):
        raise InvalidInput("methods", f"{entry[:80]!r} is not a selector: 0x and 8 hex digits")
    return entry.lower()


SIGNER_SIDE = SignerSide(
    curve="secp256k1",
    digest=keccak256,
    read=read_effects,
    receiver=lambda entry: check_address("receivers", entry),
    method=_selector,
    actions=frozenset({TRANSFER, CALL, CREATE, DELEGATE_CODE}),
    usual=frozenset({TRANSFER, CALL}),
    own_account=frozenset({CALL}),
    names="chain_id",
)
