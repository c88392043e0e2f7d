"""A PostgreSQL server of a test's own, run by a user without rights: it refuses to be run by root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.processes import end, free_port, make_folder, spawn
from tests.waiting import until_sync

_USERS = ("postgres", "nobody")


def find_postgres() -> Path | None:
    """The folder of the newest installed server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Postgres:
    """`kill` is kill -9 of the whole server; `start` again recovers from its log."""

    def __init__(self) -> None:
        bin = find_postgres()
        assert bin is not None, "PostgreSQL is not installed: apt-get install postgresql"
        self._bin = bin
        self.folder = make_folder("postgres")
        self.port = free_port()
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self.log = self.folder.with_suffix(".log")
        self._child: subprocess.Popen[bytes] | None = None
        self._as = self._without_rights()
        if self._as:
            os.chown(self.folder, int(self._as[1].partition("=")[2]), int(self._as[2].partition("=")[2]))
        made = [str(self._bin / "initdb"), "-D", str(self.folder / "data"), "-U", "tester", "-A", "trust", "-N"]
        subprocess.run([*self._as, *made], check=True, capture_output=True, cwd="/")

    @staticmethod
    def _without_rights() -> list[str]:
        if os.getuid() != 0:
            return []
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = next(known[name] for name in _USERS if name in known)
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]

    def start(self) -> Self:
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        told = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [*self._as, str(self._bin / "postgres"), "-D", str(self.folder / "data"), *told]

        def ready() -> bool:
            # Children of a killed server hold its memory for a moment, and a new one ends at once.
            if self._child is None or self._child.poll() is not None:
                self._child = spawn(command, self.log, cwd=Path("/"))
            return self._answers()

        until_sync(ready, 30, every=0.1, what="PostgreSQL answers")
        return self

    def _answers(self) -> bool:
        ask = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ask, check=False).returncode == 0

    def kill(self) -> None:
        self._end(signal.SIGKILL)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _end(self, how: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is not None:
            end(child, how, 15)

    def close(self) -> None:
        self._end(signal.SIGINT)  # what PostgreSQL calls fast
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)
