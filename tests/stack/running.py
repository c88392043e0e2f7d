"""`txmanager up` as a person runs it: a process, what it prints, and the processes below it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.request import Request, urlopen

from tests.servers import free_port
from tests.servers.processes import end, spawn
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
QUICK = ("--block-ms", "100", "--keys", "2")


class Up:
    def __init__(
        self, folder: Path, *options: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.data = folder / "data"
        self._output = folder / f"up-{self.port}.log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")}
        argv = [sys.executable, "-m", "txmanager", "up", "--port", str(self.port), "--data", str(self.data), *options]
        self.process = spawn(argv, self._output, cwd=cwd, env=clean | {"PYTHONPATH": str(ROOT), **(environment or {})})

    @property
    def said(self) -> str:
        return self._output.read_text()

    def until_said(self, words: str, timeout: float = 60) -> str:
        def there() -> bool:
            if words in self.said:
                return True
            assert self.process.poll() is None, self.said
            return False

        until_sync(there, timeout, what=f"up saying {words!r}")
        return self.said

    def ready(self) -> Up:
        self.until_said("new_public_key")
        return self

    def children(self) -> dict[int, str]:
        """Every process below the supervisor, by pid."""
        return {pid: command for pid, parent, command in processes() if parent == self.process.pid}

    def child(self, name: str) -> int:
        """The pid of the part whose log has this name."""
        log = str(self.data / "logs" / f"{name}.log")
        found = [pid for pid in self.children() if os.path.realpath(f"/proc/{pid}/fd/2") == os.path.realpath(log)]
        assert len(found) == 1, (name, self.children())
        return found[0]

    def create(
        self, name: str, *, wait: int = 30, parent: str = "dev0.near"
    ) -> tuple[dict[str, str], dict[str, object]]:
        """Headers and record of an account creation through the API."""
        token = (self.data / "token").read_text()
        [port] = re.findall(r"^ready: http://127.0.0.1:(\d+) ", self.said, re.MULTILINE)
        body = {"new_account_id": f"{name}.{parent}", "new_public_key": f"ed25519:{'1' * 31}2"}
        request = Request(
            f"http://127.0.0.1:{port}/v1/near/accounts?wait={wait}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urlopen(request, timeout=wait + 10) as reply:
            return {key.lower(): value for key, value in reply.headers.items()}, json.load(reply)

    def end(self, with_signal: signal.Signals = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        try:
            return self.process.wait(60)
        finally:
            end(self.process)


def processes() -> list[tuple[int, int, str]]:
    """Pid, parent and command of everything that runs, zombies aside."""
    told = subprocess.run(["ps", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    found = []
    for line in told.splitlines():
        pid, parent, state, command = line.split(None, 3)
        if not state.startswith("Z"):
            found.append((int(pid), int(parent), command))
    return found


def alive(pids: object) -> set[int]:
    return {pid for pid, _, _ in processes()} & set(pids)  # type: ignore[call-overload]
