"""The nonce service as operators run it: API processes and a worker as processes, a real node, callers with keys."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from eth_account import Account

from tests.evm.machines import PHRASE, ROOT, Machine
from tests.evm.stage import CHAIN_ID, new_signer
from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.waiting import until_sync
from txmanager.chains.evm.names import checksummed
from txmanager.client import Client

CONFIG = """
[ledger]
url = "{redis}"
prefix = "{prefix}"
durability = "none"

[worker]
lease_s = 1.0
grace_s = 1.0

[api]
port = 0
ledger_timeout_s = 5.0
{tokens}

[networks.local]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "{rpc}", direct = true }}]

[networks.local.fees]
resend_after_s = 0.5
replace_after_s = 60.0

[pools.wallets]
network = "local"
keyless = "any"
reserve_for_s = {reserve_for_s}

[pools.hot]
network = "local"
keys = ["mnemonic:PHRASE:1"]
"""


@dataclass
class Wallet:
    """A key that only its caller holds."""

    key: str = field(default_factory=lambda: "0x" + secrets.token_hex(32))

    def __post_init__(self) -> None:
        self.address: str = Account.from_key(self.key).address.lower()

    def sign(self, nonce: int, to: str, value: int = 1, *, gwei: int = 100, **more: Any) -> str:
        told: dict[str, Any] = {"nonce": nonce, "to": to, "value": value, "gas": 21_000, "chainId": CHAIN_ID}
        told |= {"maxFeePerGas": gwei * 10**9, "maxPriorityFeePerGas": 10**9, "type": 2, **more}
        return self._signed({**told, "to": checksummed(to)})

    def create(self, nonce: int, code: str, *, gas: int = 100_000) -> str:
        """A contract's creation."""
        told = {"nonce": nonce, "to": "", "value": 0, "gas": gas, "chainId": CHAIN_ID, "data": code, "type": 2}
        return self._signed({**told, "maxFeePerGas": 100 * 10**9, "maxPriorityFeePerGas": 10**9})

    def _signed(self, told: dict[str, Any]) -> str:
        return "0x" + bytes(Account.sign_transaction(told, self.key).raw_transaction).hex()


@dataclass
class Service:
    machine: Machine
    urls: list[str]
    http: list[httpx.Client]
    folder: Path

    def wallet(self, wei: int = 10**21) -> Wallet:
        made = Wallet()
        self.machine.fund(made.address, wei)
        return made

    @property
    def receiver(self) -> str:
        return new_signer().address

    def client(self, which: int = 0, **more: Any) -> Client:
        return Client(self.urls[which], **more)

    def post(self, path: str, body: dict[str, Any], which: int = 0, **more: Any) -> httpx.Response:
        return self.http[which].post(f"/evm/{path}", json=body, **more)

    def on(self, wallet: Wallet, **more: Any) -> dict[str, Any]:
        return {"address": wallet.address, "networkId": "local", **more}

    def reserve(self, wallet: Wallet, which: int = 0, **more: Any) -> dict[str, Any]:
        answer = self.post("address/nonce", self.on(wallet, **more), which)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def send(self, raw: str, reservation: str | None, which: int = 0) -> httpx.Response:
        body = {"signedTransaction": raw, "networkId": "local"}
        return self.post("transaction/sendRaw", body | ({"reservation": reservation} if reservation else {}), which)

    def health(self, wallet: Wallet) -> dict[str, Any]:
        answer = self.http[0].get("/evm/nonce/health", params=self.on(wallet))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def record(self, hash: str) -> dict[str, Any]:
        return dict(self.http[0].get(f"/v1/intents/raw:{hash}").json())

    def until_status(self, hash: str, *statuses: str, timeout: float = 60.0) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            record = self.record(hash)
            return record if record.get("status") in statuses else None

        found = until_sync(there, timeout, what=f"{hash} is {statuses}")
        assert found is not None
        return found

    def until_count(self, wallet: Wallet, count: int, timeout: float = 60.0) -> None:
        until_sync(lambda: self.machine.count(wallet.address) == count, timeout, what=f"{count} have landed")


@contextmanager
def nonce_service(
    machine: Machine, redis_url: str, *, apis: int = 1, workers: int = 1, reserve_for_s: float = 60.0, tokens: str = ""
) -> Iterator[Service]:
    folder = make_folder("nonces")
    config = folder / "txmanager.toml"
    prefix = f"nonces-{secrets.token_hex(4)}"
    config.write_text(
        CONFIG.format(redis=redis_url, prefix=prefix, rpc=machine.url, reserve_for_s=reserve_for_s, tokens=tokens)
    )
    with ExitStack() as running:
        running.callback(remove_folder, folder)
        urls, http = [], []
        for n in range(apis + workers):
            name = "api" if n < apis else "lanes"
            port = free_port()
            environment = {**os.environ, "TXMANAGER_CONFIG": str(config), "PHRASE": PHRASE}
            environment["TXMANAGER__API__PORT"] = str(port)
            program = spawn(
                [sys.executable, "-m", f"consumers.{name}"], folder / f"{name}{n}.log", cwd=ROOT, env=environment
            )
            running.callback(end, program)
            if name == "api":
                urls.append(f"http://127.0.0.1:{port}")
                http.append(running.enter_context(httpx.Client(base_url=urls[-1], timeout=40.0)))
        service = Service(machine, urls, http, folder)
        until_sync(lambda: all(_answers(one) for one in http), 120.0, what="the API processes answer")
        yield service


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False
