"""Every JSON-RPC method that is answered here, and those that are passed on. One row and one function each.

A new method is a function and a row in `ROWS`. What stands in no table does not exist for callers.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from txmanager.core.admission import Ended, Entry
from txmanager.core.errors import Unavailable
from txmanager.gateway import txpool
from txmanager.gateway.words import (
    Answer,
    Refused,
    Result,
    invalid_params,
    node_unavailable,
    outcome_unknown,
    own_lane,
    store_unavailable,
    too_many_requests,
)
from txmanager.runtime.gateway.node import Away, GatewayNode
from txmanager.runtime.gateway.outcomes import Lost
from txmanager.runtime.gateway.submit import Denied

Params = Sequence[Any]


class PassOn(Exception):
    """The node answers this one."""


Handler = Callable[[GatewayNode, Params], Awaitable[object]]
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}\Z")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}\Z")


def _only(params: Params, number: int, at_least: int | None = None) -> Params:
    least = number if at_least is None else at_least
    if len(params) < least:
        raise invalid_params(f"missing value for required argument {len(params)}")
    if len(params) > number:
        raise invalid_params(f"too many arguments, want at most {number}")
    return params


def _address(value: object) -> str:
    if not isinstance(value, str) or not _ADDRESS.match(value):
        raise invalid_params("invalid argument 0: must be an address, 0x and 40 hex digits")
    return value.lower()


def _hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.match(value):
        raise invalid_params("invalid argument 0: must be a hash, 0x and 64 hex digits")
    return value.lower()


# -- sends


async def send_raw(node: GatewayNode, batch: Sequence[Params]) -> list[Answer]:
    """All raw transactions of a request together, in their order."""
    answers: list[Answer | None] = [None] * len(batch)
    texts: list[object] = []
    places: list[int] = []
    for n, params in enumerate(batch):
        try:
            texts.append(_only(params, 1)[0])
            places.append(n)
        except Refused as error:
            answers[n] = error
    try:
        replies: Sequence[str | Denied | Refused] = await node.send(texts) if texts else []
    except Away as error:
        replies = [outcome_unknown() if error.unknown else store_unavailable()] * len(texts)
    except Lost:
        replies = [outcome_unknown()] * len(texts)
    except Unavailable:
        replies = [node_unavailable()] * len(texts)
    for n, one in zip(places, replies, strict=True):
        answers[n] = Result(one) if isinstance(one, str) else one if isinstance(one, Refused) else _denied(one)
    return [answer for answer in answers if answer is not None]


def _denied(denied: Denied) -> Refused:
    match denied.kind:
        case "params":
            return invalid_params(denied.message)
        case "rate":
            return too_many_requests()
        case "lane":
            return own_lane()
        case _:
            return Refused(denied.message)


# -- reads


async def transaction_count(node: GatewayNode, params: Params) -> object:
    _only(params, 2, 1)
    if not node.options.txpool or not node.options.mempool or len(params) < 2 or params[1] != "pending":
        raise PassOn
    return hex(await node.pending(_address(params[0])))


async def transaction_by_hash(node: GatewayNode, params: Params) -> object:
    _only(params, 1)
    if not node.options.mempool:
        raise PassOn
    try:
        found = await node.transaction(_hash(params[0]))
    except Unavailable:
        found = None
    if found is None:
        raise PassOn
    return found


async def chain_id(node: GatewayNode, params: Params) -> object:
    return hex(node.chain_id)


async def net_version(node: GatewayNode, params: Params) -> object:
    return str(node.chain_id)


async def accounts(node: GatewayNode, params: Params) -> object:
    return []


async def pool_content(node: GatewayNode, params: Params) -> object:
    _only(params, 0)
    return await txpool.content(_pooled(node))


async def pool_content_from(node: GatewayNode, params: Params) -> object:
    return await txpool.content_from(_pooled(node), _address(_only(params, 1)[0]))


async def pool_inspect(node: GatewayNode, params: Params) -> object:
    _only(params, 0)
    return await txpool.inspect(_pooled(node))


async def pool_status(node: GatewayNode, params: Params) -> object:
    _only(params, 0)
    return await txpool.status(_pooled(node))


def _pooled(node: GatewayNode) -> GatewayNode:
    if not node.options.txpool or not node.options.mempool:
        raise PassOn
    return node


async def transaction_status(node: GatewayNode, params: Params) -> object:
    """State and reason, also of what has ended within the last minutes."""
    hash = _hash(_only(params, 1)[0])
    found = await node.status(hash)
    if isinstance(found, Entry):
        state = "gapped" if found.gapped else found.state
        return {"hash": hash, "state": str(state), "from": found.sender, "nonce": hex(found.nonce)}
    if isinstance(found, Ended):
        status = {"hash": hash, "state": "ended", "from": found.sender, "nonce": hex(found.nonce)}
        return status | {"reason": found.reason, "message": found.message}
    return {"hash": hash, "state": "unknown"}


SEND = "eth_sendRawTransaction"

ROWS: Mapping[str, Handler] = {
    "eth_getTransactionCount": transaction_count,
    "eth_getTransactionByHash": transaction_by_hash,
    "eth_chainId": chain_id,
    "net_version": net_version,
    "eth_accounts": accounts,
    "txpool_content": pool_content,
    "txpool_contentFrom": pool_content_from,
    "txpool_inspect": pool_inspect,
    "txpool_status": pool_status,
    "txm_getTransactionStatus": transaction_status,
}

FILTERS = frozenset(
    {
        "eth_newFilter",
        "eth_newBlockFilter",
        "eth_newPendingTransactionFilter",
        "eth_getFilterChanges",
        "eth_getFilterLogs",
        "eth_uninstallFilter",
    }
)
"""A filter lives in one node: these always go to the same one."""

PASSED_ON = FILTERS | {
    "eth_blobBaseFee",
    "eth_blockNumber",
    "eth_call",
    "eth_coinbase",
    "eth_config",
    "eth_createAccessList",
    "eth_estimateGas",
    "eth_feeHistory",
    "eth_gasPrice",
    "eth_getBalance",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getBlockTransactionCountByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getCode",
    "eth_getHeaderByHash",
    "eth_getHeaderByNumber",
    "eth_getLogs",
    "eth_getProof",
    "eth_getRawTransactionByHash",
    "eth_getStorageAt",
    "eth_getTransactionByBlockHashAndIndex",
    "eth_getTransactionByBlockNumberAndIndex",
    "eth_getTransactionReceipt",
    "eth_getUncleByBlockHashAndIndex",
    "eth_getUncleByBlockNumberAndIndex",
    "eth_getUncleCountByBlockHash",
    "eth_getUncleCountByBlockNumber",
    "eth_hashrate",
    "eth_maxPriorityFeePerGas",
    "eth_mining",
    "eth_protocolVersion",
    "eth_simulateV1",
    "eth_syncing",
    "net_listening",
    "net_peerCount",
    "web3_clientVersion",
    "web3_sha3",
}
