"""Where processes sit: a seat has its own fault proxies to every server and node; whoever sits there is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.servers import HOST, Server, end
from tests.servers.proxy import FaultProxy

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


@dataclass(eq=False)
class Child:
    """One process that was born in the nursery, or beside it."""

    name: str
    log: Path
    pid: int = 0
    code: int | None = None
    point: str = ""
    """Where it is going to kill itself; `anywhere` when it is killed from outside."""
    dies_at: float = float("inf")
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: bool = False
    skewed: bool = False

    @property
    def alive(self) -> bool:
        return self.pid > 0 and self.code is None

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Seat:
    def __init__(self, name: str, servers: list[Any], rpc_port: int, port: int | None = None) -> None:
        self.name = name
        self.port = port
        """Where whoever sits here listens; callers come through the door."""
        self.door = FaultProxy(HOST, port, resp=False) if port is not None else None
        self.ledger = {
            server.port: FaultProxy(HOST, server.port, resp=isinstance(server, Server)) for server in servers
        }
        self.rpc = FaultProxy(HOST, rpc_port, resp=False)
        self._rpc_port = rpc_port
        self.child: Child | None = None
        self.started = float("-inf")
        self.clock: dict[str, str] | None = None
        """What bends the wall clock of the next one here."""

    @property
    def proxies(self) -> list[FaultProxy]:
        return [*self.ledger.values(), self.rpc, *([self.door] if self.door is not None else [])]

    @property
    def detours(self) -> dict[str, int]:
        ports = {str(port): proxy.port for port, proxy in self.ledger.items()}
        return {**ports, str(self._rpc_port): self.rpc.port}

    def heal(self, *, drop: bool = False) -> None:
        for proxy in self.proxies:
            proxy.disarm()
            proxy.heal(drop=drop)
            proxy.commands.clear()

    async def __aenter__(self) -> Self:
        for proxy in self.proxies:
            await proxy.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for proxy in self.proxies:
            await proxy.close()


class Nursery:
    """Talks with `tests.chaos.nursery`; children with a bent clock cannot be forked and are started afresh."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: dict[int, Child] = {}
        self._born: dict[str, Child] = {}
        self._apart: dict[int, subprocess.Popen[bytes]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._hearing: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        command = [sys.executable, "-m", "tests.chaos.nursery"]
        with (self._folder / "nursery.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        self._hearing = [asyncio.create_task(self._hear()), asyncio.create_task(self._watch_apart())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._hearing:
            task.cancel()
        for child in self._children.values():
            child.signal(signal.SIGKILL)
        for process in self._apart.values():
            end(process, signal.SIGKILL)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    def bear(self, told: dict[str, Any], **more: Any) -> Child:
        child = Child(told["name"], Path(told["log"]), **more)
        self._born[child.name] = child
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        return child

    def start_apart(self, told: dict[str, Any], environment: dict[str, str], **more: Any) -> Child:
        """The same worker as a program of its own, with another environment."""
        child = Child(told["name"], Path(told["log"]), **more)
        with child.log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.victim", json.dumps(told)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=ROOT,
                env={**ENVIRONMENT, **environment},
            )
        child.pid = process.pid
        self._children[child.pid] = child
        self._apart[child.pid] = process
        return child

    async def _hear(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            if "pid" in told:
                child = self._born.pop(told["name"])
                child.pid = told["pid"]
                self._children[child.pid] = child
            else:
                self._ended(told["ended"], told["code"])

    async def _watch_apart(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            for pid, process in list(self._apart.items()):
                if process.poll() is not None:
                    del self._apart[pid]
                    self._ended(pid, process.returncode)

    def _ended(self, pid: int, code: int) -> None:
        child = self._children.pop(pid, None)
        if child is not None:
            child.code = code
            child.ended.set()
