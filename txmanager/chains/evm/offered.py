"""Signed bytes that a wallet offers to the gateway, read and checked as geth's pool does, in geth's order and words.

Only what the bytes tell is decided here. Zero fees pass: some chains take them, and the node decides.
"""

from __future__ import annotations

import re
from typing import Any

from txmanager.chains.evm.encoding import encoded
from txmanager.chains.evm.intents import MAX_INIT_CODE
from txmanager.chains.evm.raw import chain_and_parity, intrinsic_gas, parts_of, recover, signing_digest
from txmanager.chains.evm.transaction import LEGACY, SET_CODE, Read, read_parts
from txmanager.core.errors import InvalidInput
from txmanager.core.given import Given
from txmanager.core.upstream import NotTaken
from txmanager.core.values import value
from txmanager.signing.evm import keccak256

MAX_SIZE = 128 * 1024
BLOB = 3
_HEX = re.compile(r"0x([0-9a-fA-F]{2})+\Z")
_NONCE_MAX = 2**64 - 1


@value(frozen=True, slots=True)
class Rules:
    chain_id: int
    allow_unprotected: bool = False
    max_gas: int | None = None
    """The chain's limit of one transaction."""
    block_gas: int | None = None
    """The newest block's limit, as last seen."""


def read_offered(text: object, rules: Rules) -> Given:
    raw = _bytes(text)
    kind = LEGACY if raw[0] >= 0xC0 else raw[0]
    if kind == BLOB or (kind != SET_CODE and kind > BLOB):
        raise NotTaken("transaction type not supported")
    try:
        kind, parts = parts_of(raw)
        transaction = read_parts(kind, parts)
    except (InvalidInput, IndexError, ValueError, TypeError) as error:
        raise NotTaken(f"rlp: invalid transaction: {_problem(error)}", malformed=True) from None
    body = transaction.body
    if len(body.to) not in (0, 20):
        raise NotTaken("rlp: invalid transaction: the receiver must have 20 bytes or none", malformed=True)
    unprotected = kind == LEGACY and int.from_bytes(parts[-3], "big") in (27, 28)
    if unprotected and not rules.allow_unprotected:
        raise NotTaken("only replay-protected (EIP-155) transactions allowed over RPC")
    _check_form(raw, transaction, rules)
    sender, chain_id = _signer(kind, parts, unprotected, rules)
    _check_cost(transaction)
    return Given(
        raw=raw,
        hash="0x" + keccak256(raw).hex(),
        nonce=transaction.nonce,
        sender=sender,
        chain_id=chain_id,
        to="0x" + body.to.hex() if body.to else None,
        value=body.value,
        gas=body.gas,
        max_fee=transaction.fees.max_fee,
        tip=transaction.fees.tip,
        type=kind,
    )


def _bytes(text: object) -> bytes:
    if not isinstance(text, str):
        raise NotTaken("invalid argument 0: must be a hex string", malformed=True)
    if not text.startswith("0x"):
        raise NotTaken("invalid argument 0: hex string without 0x prefix", malformed=True)
    if len(text) > 2 * MAX_SIZE + 2:
        raise NotTaken(f"oversized data: transaction size {len(text) // 2 - 1}, limit {MAX_SIZE}")
    if not _HEX.match(text):
        raise NotTaken("invalid argument 0: invalid hex string", malformed=True)
    return bytes.fromhex(text[2:])


def _check_form(raw: bytes, transaction: Read, rules: Rules) -> None:
    body, fees = transaction.body, transaction.fees
    if len(raw) > MAX_SIZE:
        raise NotTaken(f"oversized data: transaction size {len(raw)}, limit {MAX_SIZE}")
    if not body.to and len(body.data) > MAX_INIT_CODE:
        raise NotTaken(f"max initcode size exceeded: code size {len(body.data)}, limit {MAX_INIT_CODE}")
    if rules.block_gas is not None and body.gas > rules.block_gas:
        raise NotTaken("exceeds block gas limit")
    if rules.max_gas is not None and body.gas > rules.max_gas:
        raise NotTaken(f"transaction gas limit too high (cap: {rules.max_gas}, tx: {body.gas})")
    if fees.tip > fees.max_fee:
        raise NotTaken(
            "max priority fee per gas higher than max fee per gas: "
            f"maxPriorityFeePerGas: {fees.tip}, maxFeePerGas: {fees.max_fee}"
        )
    if body.type == SET_CODE and not body.to:
        raise NotTaken("set code transaction must not be a create transaction")
    if body.type == SET_CODE and not body.authorizations:
        raise NotTaken("set code tx must have at least one authorization tuple")
    if transaction.nonce >= _NONCE_MAX:
        raise NotTaken("nonce has max value")


def _signer(kind: int, parts: list[Any], unprotected: bool, rules: Rules) -> tuple[str, int]:
    try:
        if unprotected:
            digest = keccak256(encoded(parts[:-3]))
            return recover(parts, digest, int.from_bytes(parts[-3], "big") - 27), rules.chain_id
        chain_id, parity = chain_and_parity(kind, parts)
        if chain_id != rules.chain_id:
            raise NotTaken(f"invalid sender: invalid chain id for signer: have {chain_id} want {rules.chain_id}")
        return recover(parts, signing_digest(kind, parts, chain_id), parity), chain_id
    except InvalidInput:
        raise NotTaken("invalid sender: invalid transaction v, r, s values") from None


def _check_cost(transaction: Read) -> None:
    body = transaction.body
    if body.gas < (least := intrinsic_gas(body)):
        raise NotTaken(f"intrinsic gas too low: gas {body.gas}, minimum needed {least}")


def _problem(error: Exception) -> str:
    return error.problem if isinstance(error, InvalidInput) else "a part has a wrong form"
