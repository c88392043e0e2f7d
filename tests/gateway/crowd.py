"""Several gateway processes on one Redis, and wallets that send through whichever of them answers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from tests.evm.machines import Machine
from tests.gateway.senders import CHAIN_ID, Sender
from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
AGAIN = (-32603, -32005)
"""Errors after which a wallet sends the same bytes again."""


class Instance:
    def __init__(self, folder: Path, number: int) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._log = folder / f"gateway-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str]) -> None:
        told = {**os.environ, **environment, "TXMANAGER__GATEWAY__PORT": str(self.port)}
        told |= {"TXMANAGER_CONFIG": str(self._folder / "gateway.toml")}
        self._process = spawn([sys.executable, "-m", "consumers.gateway"], self._log, cwd=ROOT, env=told)

    def wait(self, environment: dict[str, str]) -> None:
        def ready() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                said = self.said()
                assert said.rstrip().endswith("Address already in use"), said[-3_000:]
                self.port = free_port()
                self.url = f"http://127.0.0.1:{self.port}"
                self.start(environment)
            with suppress(httpx.TransportError):
                return httpx.get(f"{self.url}/healthz", timeout=5.0).status_code == 200
            return False

        until_sync(ready, 60.0, what="a gateway listening")

    def said(self) -> str:
        return self._log.read_text()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        end(self._process, signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)
            end(self._process)

    def metric(self, name: str, **labels: str) -> float:
        labels = {"chain": str(CHAIN_ID), **labels}
        total = 0.0
        for line in httpx.get(f"{self.url}/metrics", timeout=10.0).text.splitlines():
            if line.startswith(f"txmanager_gateway_{name}{{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rpartition(" ")[2])
        return total


class Crowd:
    """`Crowd(strict, redis_url, prefix, instances=3, hold_ms=10_000)`."""

    def __init__(self, machine: Machine, redis_url: str, prefix: str, instances: int = 2, **settings: Any) -> None:
        self._folder = make_folder("gateway")
        self._settings = settings
        strict = type(machine).__name__ == "Strict"
        lines = [
            "[ledger]",
            f'url = "{redis_url}"',
            f'prefix = "{prefix}"',
            *settings.pop("ledger", ()),
            "[networks.anvil]",
            'chain = "evm"',
            f"chain_id = {CHAIN_ID}",
            f'rpc = [{{ url = "{machine.url}", direct = true }}]',
            "[gateway]",
            f'backend = "{"strict" if strict else "pool"}"',
            *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
        ]
        (self._folder / "gateway.toml").write_text("\n".join(lines) + "\n")
        self.environment = {"TXMANAGER_LOG_LEVEL": "info"}
        self.instances = [Instance(self._folder, n) for n in range(instances)]
        self.config = self._folder / "gateway.toml"

    def __enter__(self) -> Self:
        for instance in self.instances:
            instance.start(self.environment)
        for instance in self.instances:
            instance.wait(self.environment)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for instance in self.instances:
            instance.stop()
        if error is not None:
            for instance in self.instances:
                print(instance.said()[-2_000:])
        remove_folder(self._folder)

    def restart(self, instance: Instance) -> None:
        instance.start(self.environment)
        instance.wait(self.environment)


class Wallets:
    """Send each sender's transactions, shuffled and side by side, until each one was accepted."""

    def __init__(self, crowd: Crowd, seed: int = 1) -> None:
        self._crowd = crowd
        self._random = random.Random(seed)
        self._http = httpx.AsyncClient(timeout=20.0, limits=httpx.Limits(max_connections=200))
        self.accepted: set[str] = set()
        self.refused: list[str] = []

    async def send_all(self, senders: list[Sender], each: int) -> None:
        raws = [sender.sign(nonce) for sender in senders for nonce in range(each)]
        self._random.shuffle(raws)
        await asyncio.gather(*(self._until_accepted(raw) for raw in raws))
        await self._http.aclose()

    async def _until_accepted(self, raw: str) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]}
        while True:
            instance = self._random.choice(self._crowd.instances)
            try:
                told = (await self._http.post(instance.url, json=body)).json()
            except httpx.TransportError:
                await asyncio.sleep(0.2)
                continue
            if "result" in told:
                self.accepted.add(told["result"])
                return
            error = told["error"]
            if error["message"] == "already known":
                self.accepted.add(Sender.hash(raw))
                return
            if error["code"] not in AGAIN:
                # accepted before, under an answer that was lost, and sent meanwhile
                if error["message"].startswith("nonce too low"):
                    return
                self.refused.append(error["message"])
                return
            await asyncio.sleep(0.2)
