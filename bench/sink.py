"""A JSON-RPC sink that answers like a NEAR node on which everything lands at once, in a process of its own.

    python -m bench.sink [--delay-ms 20]

It prints its port. It counts requests, connections and order violations (a nonce at or below one that the same key
sent before), and tells them when asked `bench_stats`. After `bench_hold` it includes nothing until `bench_release`.
It knows no blocks with contents: no proof of death may be asked of it. `--delay-ms` is spent in the handler of every
send, connection by connection.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import re
import time
from collections import Counter, deque
from typing import Any

import base58
import orjson
import uvloop

from txmanager.chains.near.names import b58_text

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_HASH = "11111111111111111111111111111112"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_SIGNATURE = 65
_KEY = 33
_FIRST_NONCE = 1_000


class Ledger:
    """What the sink remembers: the highest nonce of each key, the hashes it took, and what it was asked."""

    def __init__(self) -> None:
        self.nonces: dict[bytes, int] = {}
        self.known: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.violations = 0
        self.connections = 0
        self.holds = False
        """Whether what is sent stays where it is: taken, and never included."""
        self.began, self._spent = time.monotonic(), time.process_time()

    def take(self, transaction: str) -> str:
        raw = base64.b64decode(transaction)[:-_SIGNATURE]
        after = 4 + int.from_bytes(raw[:4], "little")
        key, nonce = raw[after : after + _KEY], int.from_bytes(raw[after + _KEY : after + _KEY + 8], "little")
        if nonce <= self.nonces.get(key, 0):
            self.violations += 1
        self.nonces[key] = max(nonce, self.nonces.get(key, 0))
        name = b58_text(hashlib.sha256(raw).digest())
        self.known.add(name)
        return name

    @property
    def height(self) -> int:
        return 1_000 + int((time.monotonic() - self.began) * 1_000)

    def stats(self) -> dict[str, Any]:
        return {
            "asked": dict(self.asked),
            "requests": sum(self.asked.values()),
            "connections": self.connections,
            "violations": self.violations,
            "cpu_s": time.process_time() - self._spent,
        }


def _receipt(name: str, executor: str, status: dict[str, str], following: list[str]) -> dict[str, Any]:
    outcome = {
        "logs": [],
        "receipt_ids": following,
        "gas_burnt": 223_182_562_500,
        "tokens_burnt": "22318256250000000000",
        "executor_id": executor,
        "status": status,
        "metadata": {"version": 1, "gas_profile": None},
    }
    return {"proof": [], "block_hash": _HASH, "id": name, "outcome": outcome}


def _status(name: str, receipt: str) -> dict[str, Any]:
    return {
        "final_execution_status": "FINAL",
        "status": {"SuccessValue": ""},
        "transaction": {"hash": name, "signer_id": "relayer.near", "receiver_id": "ft.near", "nonce": 1, "actions": []},
        "transaction_outcome": _receipt(name, "relayer.near", {"SuccessReceiptId": receipt}, [receipt]),
        "receipts_outcome": [_receipt(receipt, "ft.near", {"SuccessValue": ""}, [])],
        "receipts": [],
    }


_LANDED = orjson.dumps(_status("NAME", "RECEIPT"))
"""Written once, with two places to fill in: the sink shares the processors with whom it measures."""


def landed(name: str) -> orjson.Fragment:
    text = name.encode()
    return orjson.Fragment(_LANDED.replace(b"NAME", text).replace(b"RECEIPT", b"1111" + text[4:]))


class Refused(Exception):
    pass


def answer(ledger: Ledger, method: str, params: Any) -> Any:
    ledger.asked[method] += 1
    match method:
        case "broadcast_tx_async":
            return ledger.take(params[0])
        case "EXPERIMENTAL_tx_status":
            if params["tx_hash"] not in ledger.known:
                raise Refused("UNKNOWN_TRANSACTION")
            return {"final_execution_status": "NONE"} if ledger.holds else landed(params["tx_hash"])
        case "query" if params["request_type"] == "view_access_key":
            key = b"\0" + base58.b58decode(params["public_key"].partition(":")[2])
            nonce = _FIRST_NONCE if ledger.holds else ledger.nonces.get(key, _FIRST_NONCE)
            return {"nonce": nonce, "permission": "FullAccess", "block_height": ledger.height, "block_hash": _HASH}
        case "query":
            return {"amount": "1" + "0" * 30, "block_height": ledger.height, "block_hash": _HASH}
        case "block":
            return {"header": {"height": ledger.height, "hash": _HASH, "prev_hash": _HASH}, "chunks": []}
        case "status":
            return {"chain_id": "bench"}
        case "bench_stats":
            return ledger.stats()
        case "bench_hold" | "bench_release":
            ledger.holds = method == "bench_hold"
            return ledger.holds
    raise Refused("METHOD_NOT_FOUND")


class Connection(asyncio.Protocol):
    """As little HTTP as the contenders' clients need: keep-alive, pipelining, bodies with a length."""

    def __init__(self, ledger: Ledger, delay_s: float) -> None:
        self._ledger = ledger
        self._delay_s = delay_s
        self._rest = b""
        self._waits = False
        self._later: deque[bytes] = deque()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ledger.connections += 1

    def data_received(self, data: bytes) -> None:
        data, at, answers = self._rest + data, 0, []
        while (head := data.find(b"\r\n\r\n", at)) >= 0:
            length = _LENGTH.search(data, at, head)
            assert length is not None, "a request without a Content-Length"
            start = head + 4
            end = start + int(length[1])
            if end > len(data):
                break
            body = self._respond(data[start:end])
            answers.append(_HEAD % (len(body), body))
            at = end
        self._rest = data[at:]
        if answers and (self._waits or self._later):  # never ahead of an answer that waits
            self._waits = False
            self._later.append(b"".join(answers))
            asyncio.get_running_loop().call_later(self._delay_s, self._write_next)
        elif answers:
            self._transport.write(b"".join(answers))

    def _write_next(self) -> None:
        self._transport.write(self._later.popleft())

    def _respond(self, body: bytes) -> bytes:
        asked = orjson.loads(body)
        if isinstance(asked, list):  # like nearcore: no batches
            return orjson.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})
        return orjson.dumps(self._answer(asked))

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._waits |= self._delay_s > 0 and asked["method"] == "broadcast_tx_async"
        try:
            return {
                "jsonrpc": "2.0",
                "id": asked["id"],
                "result": answer(self._ledger, asked["method"], asked["params"]),
            }
        except Refused as why:
            error = {"name": "HANDLER_ERROR", "cause": {"name": str(why), "info": {}}, "code": -32000, "message": ""}
            return {"jsonrpc": "2.0", "id": asked["id"], "error": error}


async def serve(delay_s: float) -> None:
    ledger = Ledger()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(ledger, delay_s), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    uvloop.run(serve(parser.parse_args().delay_ms / 1000))


if __name__ == "__main__":
    main()
