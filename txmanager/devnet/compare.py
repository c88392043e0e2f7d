"""`txmanager devnet compare`: ask a real node and the devnet the same harmless questions, and say what differs.

Nothing is sent: the questions read, or are refused. Compared are HTTP statuses, shapes and the names of errors; what
belongs to a chain (hashes, heights, balances, names) may differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Json = Any
_TIMEOUT_S = 30.0
_NOBODY = "nobody-has-this-name-0000.near"
_NO_HASH = "11111111111111111111111111111111"
_NO_KEY = "ed25519:11111111111111111111111111111111"
_WORDS = ("name", "code", "message")
"""Fields of an error whose values are the node's own words, and must agree."""


class Question(NamedTuple):
    name: str
    method: str
    params: Json
    body: bytes | None = None
    """The request as it is, where it is no JSON-RPC call."""


class Answer(NamedTuple):
    status: int
    body: Json
    """The JSON; text where it is none."""


class Node:
    """One URL. An API key in it is never printed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a URL must look like https://rpc.example.com")
        self._parts = parts

    def post(self, body: bytes) -> Answer:
        headers = {"content-type": "application/json"}
        return self._open(urllib.request.Request(self._at(""), data=body, headers=headers))

    def get(self, path: str) -> Answer:
        return self._open(urllib.request.Request(self._at(path)))

    def _at(self, path: str) -> str:
        return self._parts._replace(path=(self._parts.path.rstrip("/") + path) or "/").geturl()

    def call(self, method: str, params: Json) -> Answer:
        return self.post(json.dumps({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).encode())

    def result(self, method: str, params: Json) -> Json:
        answer = self.call(method, params)
        if not isinstance(answer.body, dict) or "result" not in answer.body:
            raise ValueError(f"the node does not answer {method} (HTTP {answer.status})")
        return answer.body["result"]

    @staticmethod
    def _open(request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                return _answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read())


def _answer(status: int, raw: bytes) -> Answer:
    try:
        return Answer(status, json.loads(raw))
    except ValueError:
        return Answer(status, raw.decode(errors="replace"))


def questions(node: Node) -> list[Question]:
    """What can be asked of any node without an effect, about things that exist there and things that do not."""
    block = node.result("block", {"finality": "final"})
    height, chunk, author = block["header"]["height"], block["chunks"][0]["chunk_hash"], _account(node, block)
    final = {"finality": "final"}

    def query(kind: str, **more: Json) -> Json:
        return {"request_type": kind, **final, "account_id": author, **more}

    key = "public_key"
    call = {"method_name": "nothing", "args_base64": "e30="}
    unknown = {"tx_hash": _NO_HASH, "sender_account_id": author, "wait_until": "NONE"}
    return [
        Question("status", "status", []),
        Question("gas price", "gas_price", [None]),
        Question("protocol config", "EXPERIMENTAL_protocol_config", final),
        Question("final block", "block", final),
        Question("block by height", "block", {"block_id": height}),
        Question("block that is not there", "block", {"block_id": height + 10_000_000}),
        Question("chunk", "chunk", {"chunk_id": chunk}),
        Question("chunk that is not there", "chunk", {"chunk_id": _NO_HASH}),
        Question("account", "query", query("view_account")),
        Question("account that is not there", "query", query("view_account", account_id=_NOBODY)),
        Question("key that is not there", "query", query("view_access_key", **{key: _NO_KEY})),
        Question("key of nobody", "query", query("view_access_key", account_id=_NOBODY, **{key: _NO_KEY})),
        Question("keys of nobody", "query", query("view_access_key_list", account_id=_NOBODY)),
        Question("gas key that is not there", "query", query("view_gas_key_nonces", **{key: _NO_KEY})),
        Question("call of nobody", "query", query("call_function", account_id=_NOBODY, **call)),
        Question("unknown query", "query", query("view_nothing")),
        Question("transaction that is not there", "tx", unknown),
        Question("its status", "EXPERIMENTAL_tx_status", unknown),
        Question("not a hash", "tx", {**unknown, "tx_hash": "0"}),
        Question("not a transaction", "send_tx", {"signed_tx_base64": "AAAA"}),
        Question("not base64", "send_tx", {"signed_tx_base64": "!"}),
        Question("unknown method", "nothing_of_the_kind", []),
        Question("no parameters", "block", None),
        Question("unknown parameter", "block", {"finality": "whenever"}),
        Question("not JSON", "", None, b"{"),
        Question("no id", "", None, b'{"jsonrpc":"2.0","method":"status","params":[]}'),
        Question("GET /status", "GET", "/status"),
        Question("GET /health", "GET", "/health"),
    ]


def _account(node: Node, block: Json) -> str:
    """Somebody who is there: the chain's root, or who made the block."""
    for name in ("near", "testnet", str(block.get("author", ""))):
        asked = {"request_type": "view_account", "finality": "final", "account_id": name}
        answer = node.call("query", asked).body
        if isinstance(answer, dict) and isinstance(answer.get("result"), dict) and "amount" in answer["result"]:
            return name
    raise ValueError("no account of the node could be found to ask about")


def ask(node: Node, question: Question) -> Answer:
    if question.method == "GET":
        return node.get(question.params)
    if question.body is not None:
        return node.post(question.body)
    return node.call(question.method, question.params)


def differences(real: Json, ours: Json, where: str = "", words: bool = False) -> Iterator[str]:
    """What a client would notice, one line each. Null is a value of every type."""
    if real is None or ours is None:
        return
    if isinstance(real, dict) and isinstance(ours, dict):
        for name in sorted(real.keys() | ours.keys()):
            path = f"{where}.{name}"
            if name not in ours:
                yield f"{path}: the devnet has it not"
            elif name not in real:
                yield f"{path}: the node has it not"
            else:
                yield from differences(real[name], ours[name], path, words or name == "error")
    elif isinstance(real, list) and isinstance(ours, list):
        if real and ours:  # how many there are belongs to the chain; what they look like does not
            yield from differences(real[0], ours[0], f"{where}[]", words)
    elif _kind(real) != _kind(ours):
        yield f"{where}: {_kind(real)} at the node, {_kind(ours)} at the devnet"
    elif words and where.rpartition(".")[2] in _WORDS and real != ours:
        yield f"{where}: {str(real)[:80]!r} at the node, {str(ours)[:80]!r} at the devnet"


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    names: dict[type, str] = {str: "text", dict: "an object", list: "a list"}
    return names.get(type(value), type(value).__name__)


def compare(real: Node, devnet: Node) -> Iterator[tuple[str, list[str]]]:
    """Each question with what differs in its answers; nothing where they agree."""
    for theirs, ours in zip(questions(real), questions(devnet), strict=True):
        at_node, at_devnet = ask(real, theirs), ask(devnet, ours)
        found = (
            []
            if at_node.status == at_devnet.status
            else [f"HTTP {at_node.status} at the node, {at_devnet.status} at the devnet"]
        )
        yield theirs.name, [*found, *differences(at_node.body, at_devnet.body)]


@contextmanager
def running_devnet() -> Iterator[Node]:
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--block-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Node(str(json.loads(process.stdout.readline())["url"]))
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
