"""One primary, one replica and three sentinels that agree by two: a failover takes about two seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self, cast

import redis

from tests.servers.binaries import Binary
from tests.servers.server import HOST, Server
from tests.waiting import until_sync

NAME = "mymaster"
QUORUM = 2
FAILOVER_TIMEOUT_MS = 6000
ABORTED_S = 2.5 * FAILOVER_TIMEOUT_MS / 1000
"""Sentinel gives a failover up on a busy machine, and refuses the next one for twice its timeout."""


class Sentinel:
    """`data` holds both data servers; who is primary changes, so ask `primary` and `replica`."""

    def __init__(
        self,
        binary: Binary | None = None,
        *,
        down_after_ms: int = 1000,
        config: Mapping[str, str] | None = None,
        password: str = "",
    ) -> None:
        self.password = password
        self._binary = binary
        self._down_after_ms = down_after_ms
        first = Server(binary, password=password, config=config)
        second = Server(binary, password=password, config=config, replica_of=(HOST, first.port))
        self.data = [first, second]
        self.sentinels: list[Server] = []
        self._running = ExitStack()

    @property
    def url(self) -> str:
        credentials = f":{self.password}@" if self.password else ""
        hosts = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{credentials}{hosts}/{NAME}/0"

    def start(self) -> Self:
        for server in self.data:
            self._running.enter_context(server)
        # A sentinel asks its primary for replicas every 10 s: it must find the replica at the first time of asking.
        until_sync(self._linked, 20, what="the replica follows the primary")
        until_sync(self.data[0].streams, 20, what="a write reaches the replica")
        for _ in range(3):
            sentinel = Server(self._binary, arguments=("--sentinel",), config={}, password="")
            self._write_configuration(sentinel)
            self.sentinels.append(sentinel)
            self._running.enter_context(sentinel)
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                client.execute_command("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "500")
        self.wait_ok()
        return self

    def _write_configuration(self, sentinel: Server) -> None:
        lines = [
            f"bind {HOST}",
            f"port {sentinel.port}",
            f"dir {sentinel.directory}",
            f"sentinel monitor {NAME} {HOST} {self.data[0].port} {QUORUM}",
            f"sentinel down-after-milliseconds {NAME} {self._down_after_ms}",
            f"sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}",
            f"sentinel parallel-syncs {NAME} 1",
        ]
        if self.password:
            lines.append(f"sentinel auth-pass {NAME} {self.password}")
        (sentinel.directory / "server.conf").write_text("\n".join(lines) + "\n")

    def _linked(self) -> bool:
        with self.data[1].client() as client:
            return bool(client.info("replication").get("master_link_status") == "up")

    def wait_ok(self, timeout: float = 30) -> None:
        """Until every sentinel sees the others, a live primary and a live replica: a failover could begin."""
        until_sync(
            lambda: all(self._sees_all(sentinel) for sentinel in self.sentinels if sentinel.running),
            timeout,
            what="the sentinels see each other, the primary and the replica",
        )

    def _sees_all(self, sentinel: Server) -> bool:
        with sentinel.client() as client:
            primary = cast(dict[str, object], client.sentinel_master(NAME))
            replicas = cast(list[dict[str, object]], client.sentinel_slaves(NAME))
        others = sum(1 for other in self.sentinels if other.running) - 1
        live = [r for r in replicas if not r["is_disconnected"] and r["master-link-status"] == "ok"]
        return primary["flags"] == "master" and cast(int, primary["num-other-sentinels"]) >= others and len(live) >= 1

    @property
    def primary(self) -> Server:
        """Whom the sentinels name."""
        sentinel = next(sentinel for sentinel in self.sentinels if sentinel.running)
        with sentinel.client() as client:
            _, port = cast(tuple[str, int], client.sentinel_get_master_addr_by_name(NAME))
        return next(server for server in self.data if server.port == port)

    @property
    def replica(self) -> Server:
        primary = self.primary
        return next(server for server in self.data if server is not primary)

    def fail_over(self, *, kill: bool = True) -> Server:
        """Kill the primary (or only ask for a change) and wait for the new one, which is returned."""
        old = self.primary
        if kill:
            old.kill9()
        asked_at = 0.0

        def moved() -> bool:
            nonlocal asked_at
            if not kill and time.monotonic() - asked_at > ABORTED_S:
                asked_at = time.monotonic()
                self._ask_for_failover()
            return self.primary is not old and _is_primary(self.primary)

        until_sync(moved, 60, what="a new primary is named")
        return self.primary

    def _ask_for_failover(self) -> None:
        with self.sentinels[0].client() as client, contextlib.suppress(redis.exceptions.ResponseError):
            # refused while one is under way, or while the replica lags
            client.execute_command("SENTINEL", "FAILOVER", NAME)

    def close(self) -> None:
        self._running.close()
        for server in (*self.sentinels, *self.data):
            server.close()

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


def _is_primary(server: Server) -> bool:
    try:
        with server.client() as client:
            return bool(client.info("replication")["role"] == "master")
    except redis.exceptions.ConnectionError:
        return False
