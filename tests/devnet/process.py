"""A devnet in its own process, as users run it, on a free port of the loopback address."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import base58
import httpx
from near import wire
from near.keys import KeyPairSigner, parse_key

from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent


class Devnet:
    """Started by entering; stopped by leaving. `kill` is kill -9, `start` again continues its folder."""

    def __init__(self, **options: Any) -> None:
        self.options = {"block_ms": 25, "delay_ms": 0, "timeout_ms": 3000, **options}
        self.told: dict[str, Any] = {}
        self._process: subprocess.Popen[str] | None = None
        self._client = httpx.Client(timeout=20)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def start(self) -> None:
        command = [sys.executable, "-m", "txmanager.devnet", "--port", "0"]
        for name, value in self.options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the devnet did not start"
        self.told = json.loads(line)

    def stop(self) -> int:
        return self._end("terminate")

    def kill(self) -> None:
        self._end("kill")

    def _end(self, how: str) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        getattr(process, how)()
        code = process.wait(10)
        assert process.stdout is not None
        process.stdout.close()
        return code

    @property
    def url(self) -> str:
        return str(self.told["url"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def account(self, index: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.told["accounts"][index]
        return found

    def post(self, method: str, params: Any, path: str = "") -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": "7", "method": method, "params": params}
        return self._client.post(self.url + path, json=body)

    def rpc(self, method: str, params: Any, path: str = "") -> Any:
        """The result; an error envelope fails the test."""
        answer = self.post(method, params, path).json()
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, params: Any, path: str = "") -> Any:
        answer = self.post(method, params, path).json()
        assert "error" in answer, answer
        return answer["error"]

    def admin(self, path: str, told: Any = None, method: str = "POST") -> Any:
        more = {} if method in ("GET", "DELETE") else {"json": told or {}}
        response = self._client.request(method, f"{self.url}/admin{path}", **more)
        assert response.status_code == 200, response.text
        return response.json()

    def fault(self, kind: str, **settings: Any) -> Any:
        return self.admin("/faults", {"kind": kind, **settings})

    def clear_faults(self) -> None:
        self.admin("/faults", method="DELETE")

    def head(self, finality: str = "optimistic", path: str = "") -> dict[str, Any]:
        header: dict[str, Any] = self.rpc("block", {"finality": finality}, path)["header"]
        return header

    def nonce(self, account: dict[str, Any], finality: str = "optimistic") -> int:
        params = {"request_type": "view_access_key", "finality": finality}
        names = {"account_id": account["account_id"], "public_key": account["public_key"]}
        return int(self.rpc("query", {**params, **names})["nonce"])

    def sign(
        self,
        account: dict[str, Any],
        receiver_id: str,
        *actions: Any,
        nonce: int | None = None,
        block_hash: str | None = None,
    ) -> tuple[str, str]:
        """Hash and base64 of a transaction signed with near-kit."""
        signer = KeyPairSigner(account["account_id"], parse_key(account["private_key"]))
        tx = wire.Transaction(
            signer_id=signer.account_id,
            public_key=wire.to_wire_public_key(signer.public_key),
            nonce=self.nonce(account) + 1 if nonce is None else nonce,
            receiver_id=receiver_id,
            block_hash=base58.b58decode(block_hash or self.head("final")["hash"]),
            actions=list(actions),
        )
        tx_hash, raw = wire.sign_transaction(tx, signer)
        return tx_hash, base64.b64encode(raw).decode()

    def landed(self, tx_hash: str, sender_id: str, path: str = "") -> bool:
        params = {"tx_hash": tx_hash, "sender_account_id": sender_id, "wait_until": "NONE"}
        return "result" in self.post("tx", params, path).json()

    def until_landed(self, tx_hash: str, sender_id: str, path: str = "") -> None:
        until_sync(lambda: self.landed(tx_hash, sender_id, path), what=f"{tx_hash} landed")


def transfer(amount: int = 1) -> Any:
    return wire.Action.Transfer(deposit=amount)


def function_call(method: str, args: dict[str, Any] | None = None, deposit: int = 0) -> Any:
    raw = json.dumps(args or {}).encode()
    return wire.Action.FunctionCall(method_name=method, args=raw, gas=30 * 10**12, deposit=deposit)
