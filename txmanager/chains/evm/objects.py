"""A pending transaction as nodes show it over JSON-RPC: geth's fields, block fields null."""

from __future__ import annotations

from typing import Any

from txmanager.chains.evm.encoding import decoded
from txmanager.chains.evm.transaction import ACCESS_LIST, LEGACY, SET_CODE, read_raw
from txmanager.signing.evm import keccak256


def pending_object(raw: bytes, sender: str) -> dict[str, Any]:
    """All numbers in hex; the gas price of a dynamic fee is its cap, since no block has set a price yet."""
    transaction = read_raw(raw)
    body, fees = transaction.body, transaction.fees
    kind = body.type
    parts: Any = decoded(raw if kind == LEGACY else raw[1:])
    v, r, s = (int.from_bytes(part, "big") for part in parts[-3:])
    shown: dict[str, Any] = {
        "blockHash": None,
        "blockNumber": None,
        "blockTimestamp": None,
        "from": sender,
        "gas": hex(body.gas),
        "gasPrice": hex(fees.max_fee),
        "hash": "0x" + keccak256(raw).hex(),
        "input": "0x" + body.data.hex(),
        "nonce": hex(transaction.nonce),
        "to": "0x" + body.to.hex() if body.to else None,
        "transactionIndex": None,
        "value": hex(body.value),
        "type": hex(kind),
    }
    if kind not in (LEGACY, ACCESS_LIST):
        shown |= {"maxFeePerGas": hex(fees.max_fee), "maxPriorityFeePerGas": hex(fees.tip)}
    if kind != LEGACY:
        shown["accessList"] = [
            {"address": "0x" + address.hex(), "storageKeys": ["0x" + key.hex() for key in keys]}
            for address, keys in body.access_list
        ]
        shown |= {"chainId": hex(int.from_bytes(parts[0], "big")), "yParity": hex(v)}
    elif v >= 35:
        shown["chainId"] = hex((v - 35) // 2)
    if kind == SET_CODE:
        names = ("chainId", "address", "nonce", "yParity", "r", "s")
        shown["authorizationList"] = [
            dict(zip(names, (hex(c), "0x" + a.hex(), hex(n), hex(y), hex(r1), hex(s1)), strict=True))
            for c, a, n, y, r1, s1 in body.authorizations
        ]
    return shown | {"v": hex(v), "r": hex(r), "s": hex(s)}


def inspected(raw: bytes, checksummed_to: str | None) -> str:
    """One line of `txpool_inspect`."""
    transaction = read_raw(raw)
    body = transaction.body
    where = checksummed_to or "contract creation"
    return f"{where}: {body.value} wei + {body.gas} gas × {transaction.fees.max_fee} wei"
