"""The Worker of the Durable Object ledger under the real `workerd`, on a disk that outlives a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path
from typing import Self

import httpx

from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.typescript.package import ROOT, installed, run
from tests.waiting import until_sync

SOURCE = ROOT / "workers" / "ledger"
BINARY = "node_modules/@cloudflare/workerd-linux-64/bin/workerd"
PRODUCER = "producer-secret-of-the-tests-0123456789"
OWNER = "owner-secret-of-the-tests-0123456789abc"


@cache
def package() -> Path:
    """The Worker with its locked tools."""
    return installed(SOURCE)


@cache
def bundles() -> Path:
    """`worker.js`, and `testing.js` whose time can be moved; made once for each process of a test run."""
    folder = make_folder("bundles")
    run(["node", "build.mjs", str(folder)], package())
    return folder


class Workerd:
    """A running Worker; `kill` and `start` again on the same disk, or a second one beside it."""

    def __init__(
        self,
        *,
        disk: Path | None = None,
        bundle: Path | None = None,
        port: int | None = None,
        incarnation: str = "first",
    ) -> None:
        self._own = disk is None
        self.disk = disk or make_folder("durable")
        self.port = port or free_port()
        self.host = "127.0.0.1"
        self._incarnation = incarnation
        self._folder = make_folder("workerd")
        self._binary = package() / BINARY
        config = (SOURCE / "workerd.capnp").read_text()
        (self._folder / "workerd.capnp").write_text(config)
        (self._folder / "dist").mkdir()
        shutil.copy(bundle or bundles() / "testing.js", self._folder / "dist" / "worker.js")
        self._log = self._folder / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return self.url_for(OWNER)

    def url_for(self, secret: str, port: int | None = None) -> str:
        return f"do+http://:{secret}@{self.host}:{port or self.port}"

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        told = {
            "AUDIENCE": self.host,
            "INCARNATION": self._incarnation,
            "PRODUCER_SECRETS": f"replaced-{PRODUCER} {PRODUCER}",
            "OWNER_SECRETS": OWNER,
        }
        argv = [str(self._binary), "serve", "workerd.capnp"]
        argv += ["--socket-addr", f"http={self.host}:{self.port}", "--directory-path", f"disk={self.disk}"]
        self.process = spawn(argv, self._log, cwd=self._folder, env={**os.environ, **told})
        until_sync(self._listens, 30, what="workerd listening")

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.said
        try:
            return httpx.get(f"http://{self.host}:{self.port}/", timeout=5).status_code == 401
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        end(self.process, signal.SIGKILL)

    def restart(self) -> None:
        self.kill()
        self.start()

    def close(self) -> None:
        self.kill()
        remove_folder(self._folder)
        if self._own:
            remove_folder(self.disk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
