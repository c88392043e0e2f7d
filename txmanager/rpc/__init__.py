"""JSON-RPC over HTTP/1.1 for any chain: bounded, timed, ordered per lane, and replaceable by an in-process chain."""

from txmanager.rpc.endpoint import Endpoint
from txmanager.rpc.errors import (
    BadAnswer,
    CircuitOpen,
    ConnectionFailed,
    RateLimited,
    RpcError,
    RpcFailure,
    TimedOut,
)
from txmanager.rpc.http import HttpRpc
from txmanager.rpc.protocol import InProcessNode, InProcessRpc, JsonRpc, Node

__all__ = [
    "BadAnswer",
    "CircuitOpen",
    "ConnectionFailed",
    "Endpoint",
    "HttpRpc",
    "InProcessNode",
    "InProcessRpc",
    "JsonRpc",
    "Node",
    "RateLimited",
    "RpcError",
    "RpcFailure",
    "TimedOut",
]
