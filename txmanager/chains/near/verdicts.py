"""What a node's refusal of a transaction means: every error becomes one `Verdict`, and so one reaction.

Anything not named here is `UNKNOWN`: look up, send the same bytes again, never sign again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txmanager.core.chain import SendReply, Verdict
from txmanager.rpc.errors import BadAnswer, RateLimited, RpcError, RpcFailure, TooLarge

_INVALID_TX: Mapping[str, Verdict] = {
    "InvalidNonce": Verdict.NONCE_TOO_LOW,
    "Expired": Verdict.EXPIRED,
    # The base block is on a fork, as that node sees it. Ours was final, so the node is behind: height must prove it.
    "InvalidChain": Verdict.EXPIRED,
    "ShardCongested": Verdict.BUSY,
    "ShardStuck": Verdict.BUSY,
    "NotEnoughBalance": Verdict.INSUFFICIENT_FUNDS,
    "LackBalanceForState": Verdict.INSUFFICIENT_FUNDS,
    "NotEnoughGasKeyBalance": Verdict.INSUFFICIENT_FUNDS,
    "NotEnoughBalanceForDeposit": Verdict.INSUFFICIENT_FUNDS,
    "SignerDoesNotExist": Verdict.KEY_MISSING,
    "InvalidNonceIndex": Verdict.KEY_MISSING,
    "InvalidSignature": Verdict.PERMANENT,
    "InvalidSignerId": Verdict.PERMANENT,
    "InvalidReceiverId": Verdict.PERMANENT,
    "ActionsValidation": Verdict.PERMANENT,
    "TransactionSizeExceeded": Verdict.PERMANENT,
    "CostOverflow": Verdict.PERMANENT,
    "InvalidTransactionVersion": Verdict.PERMANENT,
}
_ACCESS_KEY: Mapping[str, Verdict] = {
    "AccessKeyNotFound": Verdict.KEY_MISSING,
    "NotEnoughAllowance": Verdict.INSUFFICIENT_FUNDS,
    "ReceiverMismatch": Verdict.PERMANENT,
    "MethodNameMismatch": Verdict.PERMANENT,
    "RequiresFullAccess": Verdict.PERMANENT,
    "DepositWithFunctionCall": Verdict.PERMANENT,
}


_WAITED_FOR = ("", "NOT_OBSERVED", "PENDING")


def variant(value: Any) -> tuple[str, Any]:
    """An enum as serde writes it: `"Name"` or `{"Name": body}`."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, dict) and len(value) == 1:
        [(name, body)] = value.items()
        return str(name), body
    return "", None


def invalid_tx(data: Any) -> tuple[str, Any]:
    """(name, body) of the InvalidTxError inside an error's data."""
    if not isinstance(data, Mapping):
        return "", None
    inner = data.get("TxExecutionError", data)
    return variant(inner.get("InvalidTxError")) if isinstance(inner, Mapping) else ("", None)


def classify(failure: RpcFailure, waited: bool = False) -> SendReply:
    """`waited`: the call was a validating one, whose time-out means that the bytes passed and are waited for. One
    node's "too large" is permanent only when all of them say so: the caller asks them."""
    return SendReply(_verdict(failure, waited), str(failure)[:500])


def _verdict(failure: RpcFailure, waited: bool) -> Verdict:
    if isinstance(failure, RateLimited):
        return Verdict.RATE_LIMITED
    if isinstance(failure, TooLarge):
        return Verdict.PERMANENT
    if isinstance(failure, BadAnswer):
        return Verdict.UNKNOWN
    if not isinstance(failure, RpcError):
        return Verdict.UNAVAILABLE
    name, body = invalid_tx(failure.data)
    if name == "InvalidAccessKeyError":
        return _ACCESS_KEY.get(variant(body)[0], Verdict.UNKNOWN)
    if name:
        return _INVALID_TX.get(name, Verdict.UNKNOWN)
    if failure.cause == "TIMEOUT_ERROR":
        # Newer nodes say why. Not observed is no proof of anything; a node that cannot see or failed says nothing.
        return Verdict.ACCEPTED if waited and failure.reason in _WAITED_FOR else Verdict.UNKNOWN
    if failure.name == "REQUEST_VALIDATION_ERROR" and failure.cause == "PARSE_ERROR":
        return Verdict.PERMANENT
    if failure.cause in ("NO_SYNCED_BLOCKS", "NOT_SYNCED_YET"):
        return Verdict.BUSY
    if failure.status == 429 or failure.number == -429:
        return Verdict.RATE_LIMITED
    return Verdict.UNKNOWN
