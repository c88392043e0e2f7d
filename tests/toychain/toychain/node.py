"""`python -m toychain.node ACCOUNT=BALANCE ...`: the chain, over JSON-RPC. It prints its URL."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import base58
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

FEE = 1


@dataclass(frozen=True)
class Transaction:
    sender: str
    nonce: int
    receiver: str
    amount: int
    creates: bool = False

    @property
    def unsigned(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.unsigned).digest()

    def check(self, digest: bytes, signature: bytes) -> bytes | None:
        """The signature, if it is the sender's over the digest."""
        try:
            VerifyKey(base58.b58decode(self.sender.removeprefix("ed25519:"))).verify(digest, signature)
        except (ValueError, BadSignatureError):
            return None
        return signature


def read(raw: bytes) -> Transaction:
    return Transaction(**json.loads(raw[:-64]))


class Chain:
    def __init__(self, balances: dict[str, int]) -> None:
        self.accounts = {name: {"nonce": 0, "balance": balance} for name, balance in balances.items()}
        self.landed: dict[str, dict[str, Any]] = {}

    def toy_status(self) -> dict[str, int]:
        return {"height": len(self.landed)}

    def toy_account(self, name: str) -> dict[str, int] | None:
        return {**self.accounts[name], **self.toy_status()} if name in self.accounts else None

    def toy_transaction(self, hash: str) -> dict[str, Any] | None:
        return self.landed.get(hash)

    def toy_transactions(self) -> list[dict[str, Any]]:
        return list(self.landed.values())

    def toy_send(self, text: str) -> str:
        raw = bytes.fromhex(text)
        told, hash = read(raw), hashlib.sha256(raw).hexdigest()
        if hash in self.landed:
            raise ValueError("already_known")
        sender = self.accounts.get(told.sender)
        if sender is None or told.check(told.digest, raw[-64:]) is None:
            raise ValueError("permanent")
        if told.nonce != sender["nonce"]:
            raise ValueError("nonce_too_low" if told.nonce < sender["nonce"] else "nonce_gap")
        if sender["balance"] < told.amount + FEE:
            raise ValueError("insufficient_funds")
        ok = told.creates != (told.receiver in self.accounts)
        sender["nonce"] += 1
        sender["balance"] -= FEE + (told.amount if ok else 0)
        if ok:
            self.accounts.setdefault(told.receiver, {"nonce": 0, "balance": 0})["balance"] += told.amount
        self.landed[hash] = {"hash": hash, "height": len(self.landed) + 1, "ok": ok, **asdict(told)}
        return hash


def serve(chain: Chain) -> ThreadingHTTPServer:
    lock = Lock()

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        try:
            with lock:
                return {"id": asked["id"], "result": getattr(chain, asked["method"])(*asked["params"])}
        except ValueError as refused:
            return {"id": asked["id"], "error": {"code": -32000, "message": str(refused)}}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            body = json.dumps([answer(one) for one in asked] if isinstance(asked, list) else answer(asked)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


if __name__ == "__main__":
    server = serve(Chain({name: int(money) for name, _, money in (told.rpartition("=") for told in sys.argv[1:])}))
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
