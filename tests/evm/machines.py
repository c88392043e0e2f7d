"""The real nodes: anvil and hardhat, installed once from the lock file into .cache/, started on free ports."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest

from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
MANIFEST = Path(__file__).parent / "node"
HOST = "127.0.0.1"
PHRASE = "test test test test test test test test test test test junk"


def installed() -> Path:
    """The folder whose node_modules has both nodes; installing takes half a minute, once for each lock file."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to install anvil and hardhat")
    lock = (MANIFEST / "package-lock.json").read_bytes()
    folder = ROOT / ".cache" / f"evm-{hashlib.sha256(lock).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another run may be installing
        if not (folder / "complete").exists():
            for name in ("package.json", "package-lock.json", ".npmrc", "hardhat.config.js"):
                shutil.copy(MANIFEST / name, folder / name)
            done = subprocess.run(
                [npm, "ci", "--silent", "--no-audit", "--no-fund"],
                cwd=folder,
                check=False,
                capture_output=True,
                timeout=300,
            )
            assert done.returncode == 0, f"npm ci failed: {done.stderr.decode()[-500:]}"
            (folder / "complete").touch()
    return folder


class Machine:
    """One node process with its own folder. Answers are asked for with plain HTTP, not with the code under test."""

    def __init__(self, command: Sequence[str], cwd: Path | None = None, port: int | None = None) -> None:
        self.port = port or free_port()
        self._command = [part.replace("{port}", str(self.port)) for part in command]
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._http = httpx.Client(timeout=10.0)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.directory = make_folder("evm")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.resume()
        self.stop()
        self._http.close()
        remove_folder(self.directory)

    def start(self) -> None:
        environment = {**os.environ, "HARDHAT_DISABLE_TELEMETRY_PROMPT": "true", "HOME": str(self.directory)}
        command = [part.replace("{directory}", str(self.directory)) for part in self._command]
        self._process = spawn(command, self.directory / "log", cwd=self._cwd, env=environment)
        until_sync(self._answers, 60.0, what=f"{self._command[0]} answering")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()[-2_000:]
        try:
            return bool(self.rpc("eth_chainId"))
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            end(self._process, with_signal)
            self._process = None

    def hang(self) -> None:
        """The process stops, its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)

    def rpc(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        told = self._http.post(self.url, json=body).json()
        if "error" in told:
            raise RuntimeError(told["error"].get("message", str(told["error"])))
        return told["result"]

    def number(self, method: str, *params: Any) -> int:
        return int(self.rpc(method, *params), 16)

    def count(self, address: str, block: str = "latest") -> int:
        return self.number("eth_getTransactionCount", address, block)

    def balance(self, address: str) -> int:
        return self.number("eth_getBalance", address, "latest")

    def fund(self, address: str, wei: int = 10**21) -> None:
        self.rpc(f"{self.dialect}_setBalance", address, hex(wei))

    dialect = "anvil"
    chain_id = 31337


class Anvil(Machine):
    """`Anvil("--block-time", "1")`; without arguments every transaction is mined at once."""

    def __init__(self, *arguments: str, port: int | None = None, state: bool = False) -> None:
        binary = installed() / "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
        kept = ["--state", "{directory}/state.json", "--state-interval", "1"] if state else []
        common = ["--port", "{port}", "--host", HOST, "--silent", "--mnemonic", PHRASE]
        super().__init__([str(binary), *common, *kept, *arguments], port=port)

    def dumped(self) -> int:
        """When the state was last written to disk, in nanoseconds; 0 when it never was."""
        file = self.directory / "state.json"
        return file.stat().st_mtime_ns if file.exists() else 0

    def transactions(self, address: str, since: int = 0) -> list[dict[str, Any]]:
        """Every transaction of the address on the chain, in chain order, from the block `since` on."""
        found = []
        for height in range(since, self.number("eth_blockNumber") + 1):
            block = self.rpc("eth_getBlockByNumber", hex(height), True)
            found += [tx for tx in block["transactions"] if tx["from"] == address]
        return found


class Hardhat(Machine):
    """Stricter about replacements (10 % of both fees), and keeps what the base fee left behind."""

    dialect = "hardhat"

    def __init__(self) -> None:
        folder = installed()
        program = str(folder / "node_modules/.bin/hardhat")
        super().__init__([program, "node", "--hostname", HOST, "--port", "{port}"], cwd=folder)
