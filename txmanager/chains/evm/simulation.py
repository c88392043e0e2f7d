"""Before a nonce is taken: what would happen, and how much gas it needs. A revert here costs nothing but a question.

Missing funds are no revert: the gas is then estimated as if there were enough, and what it costs is compared with what
the lane has. Where a node cannot do that, what it costs at least is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from txmanager.chains.evm.fees import number
from txmanager.chains.evm.intents import parse_payload
from txmanager.chains.evm.names import LaneId
from txmanager.chains.evm.network import EvmNetwork
from txmanager.chains.evm.nodes import Call, ask_many
from txmanager.chains.evm.transaction import Body
from txmanager.chains.evm.verdicts import Refusal, read_failure
from txmanager.core.chain import Impossible, Prepared, Unpriced
from txmanager.core.errors import InvalidInput
from txmanager.core.funds import Cost
from txmanager.core.models import Intent, failure
from txmanager.rpc.errors import RpcError, RpcFailure
from txmanager.rpc.protocol import JsonRpc

_RICH = hex(2**200)
MIN_GAS = 21_000
STRIKES = 5
"""How often a node's words that nobody understands are asked again before they count against the intent."""
_NOT_ABOUT_THE_INTENT = (Refusal.UNAVAILABLE, Refusal.RATE_LIMITED)


def read(intent: Intent, max_value: int | None, base_fee: int) -> tuple[Body, bool] | Impossible:
    """(what to sign, whether to run it first), or why it can never be signed."""
    try:
        wanted = parse_payload(intent.kind, intent.payload)
        if max_value is not None and wanted.value > max_value:
            raise InvalidInput("value", f"is {wanted.value} wei; the pool's max_deposit allows {max_value}")
    except InvalidInput as error:
        return Impossible(failure("invalid_intent", str(error), new_key_helps=True, field=error.field))
    body = wanted.body()
    if body.max_fee_limit is not None and body.max_fee_limit < base_fee:
        message = f"max_fee_per_gas is {body.max_fee_limit} wei, the chain's base fee is {base_fee}; nothing was spent"
        return Impossible(
            failure("fee_limit_too_low", message, new_key_helps=True, field="max_fee_per_gas"), by_node=True
        )
    return body, wanted.simulate


async def simulate(
    rpc: JsonRpc,
    lane: LaneId,
    network: EvmNetwork,
    bodies: Sequence[tuple[Intent, Body, bool]],
    strikes: dict[str, int],
    worst: Callable[[Body], Cost],
) -> list[Prepared | Impossible | Unpriced]:
    """One batch of questions for all of them, then one more for those that only lack funds."""
    group = f"{lane}/simulate"
    calls = [_call(lane, body) for _, body, wanted in bodies if wanted]
    answers = iter(await ask_many(rpc, calls, group) if calls else ())
    results: list[Prepared | Impossible | Unpriced] = []
    for intent, body, wanted in bodies:
        answer = next(answers) if wanted else None
        if wanted and isinstance(answer, RpcError) and read_failure(answer) is Refusal.INSUFFICIENT_FUNDS:
            answer = await _as_if_rich(rpc, lane, body, group, answer)
        results.append(_judge(intent, body, answer if wanted else "0x", network, strikes, worst))
    return results


async def _as_if_rich(rpc: JsonRpc, lane: LaneId, body: Body, group: str, first: RpcError) -> Any:
    method, params = _call(lane, body)
    override = {lane.address: {"balance": _RICH}}
    [answer] = await ask_many(rpc, [(method, [*params, override])], group)
    if isinstance(answer, RpcError) and read_failure(answer) is not Refusal.PERMANENT:
        # A node without overrides: the caller's gas if there is any, else wait for funds.
        return "0x" if body.gas else first
    return answer


def _judge(
    intent: Intent,
    body: Body,
    answer: Any,
    network: EvmNetwork,
    strikes: dict[str, int],
    worst: Callable[[Body], Cost],
) -> Prepared | Impossible | Unpriced:
    if isinstance(answer, RpcFailure):
        refusal = read_failure(answer)
        if isinstance(answer, RpcError) and refusal is Refusal.INSUFFICIENT_FUNDS:
            at_least = worst(replace(body, gas=body.gas or MIN_GAS))
            return Unpriced(intent, at_least, f"the lane cannot pay for it: {answer.message or answer}")
        if not isinstance(answer, RpcError) or refusal in _NOT_ABOUT_THE_INTENT:
            raise answer
        key = str(intent.id)
        strikes[key] = strikes.get(key, 0) + 1
        if refusal is not Refusal.PERMANENT and strikes[key] < STRIKES:
            raise answer
        del strikes[key]
        code = "reverted" if refusal is Refusal.PERMANENT else "not_simulated"
        message = f"the chain would refuse it: {answer.message or answer}; nothing was spent"
        return Impossible(failure(code, message, new_key_helps=True, **_data(answer)), by_node=True)
    strikes.pop(str(intent.id), None)
    if not body.gas:
        estimate = number(answer, "an estimate")
        gas = max(MIN_GAS, estimate + estimate * network.gas_margin_percent // 100)
        if estimate == MIN_GAS and not body.data:
            gas = estimate  # a plain transfer costs exactly this
        if network.max_gas is not None:
            gas = max(estimate, min(gas, network.max_gas))
        body = replace(body, gas=gas)
    if network.max_gas is not None and body.gas > network.max_gas:
        message = f"needs {body.gas} gas; a transaction of this chain may use {network.max_gas}; nothing was spent"
        return Impossible(failure("invalid_intent", message, new_key_helps=True, field="gas"), by_node=True)
    return Prepared(intent, body, worst(body))


def _data(answer: RpcError) -> dict[str, Any]:
    """The contract's return value, for callers who decode custom errors."""
    data = answer.data.get("data") if isinstance(answer.data, dict) else answer.data
    return {"data": data[:2_000]} if isinstance(data, str) and data.startswith("0x") else {}


def _call(lane: LaneId, body: Body) -> Call:
    transaction: dict[str, Any] = {"from": lane.address, "value": hex(body.value)}
    if body.to:
        transaction["to"] = "0x" + body.to.hex()
    if body.data:
        transaction["data"] = "0x" + body.data.hex()
    if body.access_list:
        transaction["accessList"] = [
            {"address": "0x" + a.hex(), "storageKeys": ["0x" + k.hex() for k in keys]} for a, keys in body.access_list
        ]
    if body.authorizations:
        names = ("chainId", "address", "nonce", "yParity", "r", "s")
        transaction["authorizationList"] = [
            dict(zip(names, (hex(c), "0x" + a.hex(), hex(n), hex(y), hex(r), hex(s)), strict=True))
            for c, a, n, y, r, s in body.authorizations
        ]
    if body.gas:
        return "eth_call", [{**transaction, "gas": hex(body.gas)}, "latest"]
    return "eth_estimateGas", [transaction, "latest"]
