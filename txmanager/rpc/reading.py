"""Reading what nodes say: what cannot be read is the fault of its node, so the next is asked, and else we wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from txmanager.core.errors import TxManagerError
from txmanager.rpc.errors import BadAnswer, CircuitOpen, RpcError, RpcFailure
from txmanager.rpc.one import OneNode
from txmanager.rpc.protocol import Json, JsonRpc, Node

T = TypeVar("T")
Ask = Callable[[str, Any], Awaitable[Any]]


async def from_any(rpc: JsonRpc, run: Callable[[Ask], Awaitable[T]], *, group: str = "") -> T:
    """What `run` makes of the network's answers; of each node's alone, when nobody could read those."""
    try:
        return await _run(rpc, run, group)
    except BadAnswer as bad:
        last: RpcFailure = bad
    for node in rpc.nodes if len(rpc.nodes) > 1 else ():
        if not node.ready:
            continue
        try:
            return await _run(node, run, group)
        except BadAnswer as bad:
            last = bad
    raise last


async def _run(target: JsonRpc | Node, run: Callable[[Ask], Awaitable[T]], group: str) -> T:
    async def ask(method: str, params: Json) -> Json:
        return await target.call(method, params, group=group)

    try:
        return await run(ask)
    except TxManagerError:
        raise
    except Exception as error:
        raise BadAnswer(f"an answer that cannot be read ({type(error).__name__})") from error


async def on_one(rpc: JsonRpc, run: Callable[[JsonRpc], Awaitable[T]]) -> T:
    """What `run` makes of one node's answers, all of them: those of two nodes would not belong together."""
    last: RpcFailure = CircuitOpen("every endpoint is left alone for a moment after connection errors")
    for node in rpc.nodes:
        if not node.ready:
            continue
        try:
            return await run(OneNode(node))
        except RpcError:
            raise  # the node's word about the question, which another one would say, too
        except RpcFailure as failure:
            last = failure
        except TxManagerError:
            raise
        except Exception as error:
            last = BadAnswer(f"{node.name}: an answer that cannot be read ({type(error).__name__})")
    raise last
