"""The example relays as processes: Express on Node, the Worker under workerd."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import httpx

from tests.api.stage import token
from tests.client.world import World
from tests.servers.processes import end, free_port, spawn
from tests.typescript.package import ROOT, installed, run, tool
from tests.waiting import until_sync

WORKERD = "node_modules/@cloudflare/workerd-linux-64/bin/workerd"
Command = Callable[[Path, int, int], list[str]]


def prepared(name: str, tarball: Path) -> Path:
    """The example, installed with the packed client in the place of the linked one, and built."""
    folder = installed(ROOT / "examples" / name)
    with_tarball(folder, tarball)
    run([tool(folder, "tsc")], folder)
    if name == "worker-relay":
        bundle = ["worker.ts", "--bundle", "--format=esm", "--target=es2022", "--outfile=dist/worker.js"]
        run([tool(folder, "esbuild"), *bundle], folder)
    return folder


def with_tarball(folder: Path, tarball: Path) -> None:
    client = folder / "node_modules" / "@txmanager" / "client"
    if client.is_symlink():
        client.unlink()
    client.mkdir(parents=True, exist_ok=True)
    with tarfile.open(tarball) as packed:
        for member in packed.getmembers():
            member.name = member.name.removeprefix("package/")
        packed.extractall(client, filter="data")


def express(folder: Path, port: int, api: int) -> list[str]:
    return ["node", "dist/relay.js"]


def worker(folder: Path, port: int, api: int) -> list[str]:
    addresses = ["--socket-addr", f"http=127.0.0.1:{port}", "--external-addr", f"txmanager=127.0.0.1:{api}"]
    return [str(folder / WORKERD), "serve", "workerd.capnp", *addresses]


class Relay:
    def __init__(self, command: Command, folder: Path, world: World) -> None:
        self.port = free_port()
        self._log = world.stage.folder / f"relay-{self.port}.log"
        settings = {
            "TXMANAGER_URL": world.stage.url,
            "TXMANAGER_TOKEN": token("all"),
            "PARENT": world.stage.account_id,
            "RECOVERY_CONTRACT": "counter.near",
            "RECOVERY_METHOD": "increment",
            "PORT": str(self.port),
        }
        argv = command(folder, self.port, world.stage.port)
        self.process: subprocess.Popen[bytes] = spawn(argv, self._log, cwd=folder, env={**os.environ, **settings})
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        until_sync(self._listens, 30, what="the relay listening")

    @property
    def said(self) -> str:
        return self._log.read_text()

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.said
        try:
            return self.http.get("/status/nobody").status_code == 404
        except httpx.TransportError:
            return False

    def post(self, path: str, body: object) -> tuple[int, dict[str, object]]:
        reply = self.http.post(path, json=body)
        return reply.status_code, reply.json()

    def kill(self) -> None:
        end(self.process, signal.SIGKILL)

    def close(self) -> None:
        self.http.close()
        self.kill()
