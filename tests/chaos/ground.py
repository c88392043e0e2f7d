"""What a scene stands on: one server that syncs every write, Sentinel, a Cluster, or Durable Objects under workerd; and
how each can be hurt.

Everything here blocks and is called in a thread: the scene's proxies go on meanwhile. Each hurt leaves the ground whole
again, apart from what was to be lost.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import redis

from tests.servers import DURABLE, HOST, Binary, Cluster, Sentinel, Server, find_binaries
from tests.servers.cluster import own_slots, role
from tests.servers.sentinel import NAME
from tests.servers.workerd import PRODUCER, Workerd, bundles
from tests.waiting import until_sync
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.redis import RedisLedger

KEEPING = {"appendonly": "yes", "appendfsync": "everysec"}
_PATIENCE_S = 60.0


class Ground:
    """One server, `appendfsync always`."""

    kind = "single"
    durability = "fsync"

    def __init__(self, binary: Binary | None = None) -> None:
        self.servers: list[Any] = [Server(binary, config=DURABLE)]

    @property
    def url(self) -> str:
        return self.servers[0].url

    @property
    def label(self) -> str:
        return self.servers[0].binary.label

    def settings(self, folder: Path) -> str:
        """What the configuration of an API says of it; secrets go into files of the folder."""
        return f'url = "{self.url}"\ndurability = "{self.durability}"'

    def open(self, prefix: str) -> RedisLedger | DurableObjectLedger:
        return RedisLedger(self.url, prefix=prefix, durability=self.durability)  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        self.servers[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.servers[0].close()

    def kill(self, environment: dict[str, str]) -> None:
        """kill -9, then a start from the append-only file."""
        [server] = self.servers
        server.kill9()
        server.environment = environment
        server.start()

    def fill_disk(self, bytes_left: int) -> Callable[[], None]:
        """No more space; answers how to free it. With `always` a server that cannot write ends itself."""
        [server] = self.servers
        server.limit_disk(bytes_left)

        def free() -> None:
            until_sync(lambda: not server.running, _PATIENCE_S, what="the server gave up on its full disk")
            server.kill9()
            server.start()

        return free

    def primary(self, _key: str) -> Server:
        return self.servers[0]


class OnDurable(Ground):
    """The Worker of the Durable Object ledger under workerd, as it is deployed, on a disk that outlives it."""

    kind = "durable"
    label = "workerd"

    def __init__(self) -> None:
        self.servers = []

    def open(self, prefix: str) -> DurableObjectLedger:
        return DurableObjectLedger(self.url, prefix=prefix)

    def settings(self, folder: Path) -> str:
        """An API is a producer: it owns nothing here."""
        password, seal = folder / "ledger.secret", folder / "ledger.seal"
        password.write_text(PRODUCER)
        seal.write_text("a seal of the tests, 0123456789abcdef")
        url = f"do+http://{HOST}:{self.servers[0].port}"
        return (
            f'url = "{url}"\npassword = {{ file = "{password}" }}\n'
            f'seal = [{{ file = "{seal}" }}]\nseal_mode = "require"'
        )

    def __enter__(self) -> Self:
        self.servers = [Workerd(bundle=bundles() / "worker.js")]
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.close()

    def kill(self, environment: dict[str, str]) -> None:
        """kill -9, then a start on the same disk."""
        self.servers[0].restart()

    def fill_disk(self, bytes_left: int) -> Callable[[], None]:
        raise NotImplementedError


class Replicated(Ground):
    """What has a replica for every primary: it can change hands, with and without the last writes."""

    def replica(self, primary: Server) -> Server:
        raise NotImplementedError

    def promoted(self, old: Server, replica: Server) -> bool:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until it could fail over again."""
        raise NotImplementedError

    def kill(self, environment: dict[str, str]) -> None:
        raise NotImplementedError("a primary that dies here is a failover")

    def fill_disk(self, bytes_left: int) -> Callable[[], None]:
        """With `everysec` the server lives on and answers MISCONF, to PING as well: Sentinel takes it for dead."""
        server = self.primary("disk")
        server.limit_disk(bytes_left)

        def free() -> None:
            server.limit_disk(None)
            self.settle()

        return free

    def fail_over(self, key: str, killed: Callable[[], None]) -> None:
        """The primary dies and comes back as the replica of the one that followed it."""
        old = self.primary(key)
        new = self.replica(old)
        old.kill9()
        killed()
        _until(lambda: self.promoted(old, new), what=f"{new.address} is promoted")
        self._bring_back(old)

    def _bring_back(self, old: Server) -> None:
        """As a replica. Redis 7.0 may leave a file that it cannot read itself when a disk was full: it goes back empty,
        and copies the new primary."""
        try:
            old.start()
        except RuntimeError:
            old.kill9()
            shutil.rmtree(old.directory / "appendonlydir", ignore_errors=True)
            old.start()
        self.settle()

    @contextlib.contextmanager
    def cut_off(self, key: str) -> Iterator[tuple[Server, Server]]:
        """Replication ends, whatever is written from now on is lost; leaving kills the primary and promotes."""
        old = self.primary(key)
        new = self.replica(old)
        with new.client() as client:
            # A password the primary does not have: it cannot come back, and no byte waits in a buffer for it.
            client.config_set("masterauth", "nobody knows")
            client.execute_command("CLIENT", "KILL", "TYPE", "master")
            until_sync(lambda: client.info("replication")["master_link_status"] == "down", what="replication is cut")
        yield old, new
        _until(lambda: self.promoted(old, new), what=f"{new.address} is promoted")
        with new.client() as client:
            client.config_set("masterauth", "")
            client.config_rewrite()  # Sentinel had it written down
        self._bring_back(old)


class OnSentinel(Replicated):
    kind = "sentinel"

    def __init__(self, durability: str) -> None:
        self.durability = durability
        self._sentinel = Sentinel(down_after_ms=500, config=KEEPING)
        self.servers = self._sentinel.data

    @property
    def url(self) -> str:
        return self._sentinel.url

    def __enter__(self) -> Self:
        self._sentinel.__enter__()
        for sentinel in self._sentinel.sentinels:
            with sentinel.client() as client:
                # They would wait for twice this time between two failovers.
                client.execute_command("SENTINEL", "SET", NAME, "failover-timeout", 3000)
        if self.durability == "replicas":
            for server in self.servers:
                with server.client() as client:
                    client.config_set("min-replicas-to-write", 1)  # as docs/operations.md recommends: NOREPLICAS
                    client.config_rewrite()
        return self

    def __exit__(self, *_: object) -> None:
        self._sentinel.close()

    def primary(self, _key: str) -> Server:
        return self._sentinel.primary

    def replica(self, primary: Server) -> Server:
        return next(server for server in self.servers if server is not primary)

    def promoted(self, old: Server, replica: Server) -> bool:
        return self._sentinel.primary is replica and role(replica) == "master"

    def settle(self) -> None:
        _until(self._agreed, what="all sentinels name one primary, and the other follows it")
        _until(self._sees_all, what="the sentinels see each other, the primary and the replica")
        _until(lambda: _streams(self.primary("")), what="writes reach the replica")

    def _sees_all(self) -> bool:
        self._sentinel.wait_ok(_PATIENCE_S)
        return True

    def _agreed(self) -> bool:
        ports = set()
        for sentinel in self._sentinel.sentinels:
            with sentinel.client() as client:
                ports.add(int(client.sentinel_get_master_addr_by_name(NAME)[1]))
        primary = self.primary("")
        with self.replica(primary).client() as client:
            follows = client.info("replication")
        return ports == {primary.port} and role(primary) == "master" and follows.get("master_port") == primary.port


class OnCluster(Replicated):
    kind = "cluster"
    durability = "replicas"

    def __init__(self) -> None:
        self._cluster = Cluster(node_timeout_ms=1000, config=KEEPING)
        self.servers = self._cluster.nodes

    @property
    def url(self) -> str:
        return self._cluster.url

    def __enter__(self) -> Self:
        self._cluster.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def primary(self, key: str) -> Server:
        return self._cluster.primary_of(key)

    def replica(self, primary: Server) -> Server:
        return self._cluster.replica_of(primary)

    def promoted(self, old: Server, replica: Server) -> bool:
        return role(replica) == "master" and bool(own_slots(replica))

    def settle(self) -> None:
        _until(self._is_ok, what="the cluster is ok")
        for server in self.servers:
            if role(server) == "master":
                _until(partial(_streams, server), what="writes reach the replica")

    def _is_ok(self) -> bool:
        self._cluster.wait_ok(_PATIENCE_S)
        return True

    def move_slot(self, slot: int) -> None:
        """Hand a slot and its keys to another primary while everybody goes on, as redis-cli does it."""
        source = self._cluster.primaries_by_slot(slot)
        primaries = [server for server in self.servers if role(server) == "master"]
        target = next(server for server in primaries if server is not source and own_slots(server))
        with source.client() as old, target.client() as new:
            old_name, new_name = (client.execute_command("CLUSTER", "MYID") for client in (old, new))
            new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", old_name)
            old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", new_name)
            while keys := old.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 10):
                for key in keys:
                    old.execute_command("MIGRATE", HOST, target.port, key, 0, 5000)
            # What was moved must be on the target's replica before the source forgets that it was the owner.
            _until(partial(_streams, target), what="the moved keys reach a replica")
        for server in (target, source, *primaries):
            with server.client() as client:
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", new_name)
        self.settle()


def _until(predicate: Callable[[], bool], what: str) -> None:
    """Servers that change hands break connections: that is no answer, and no failure."""

    def answered() -> bool:
        try:
            return predicate()
        except redis.exceptions.RedisError:
            return False

    until_sync(answered, _PATIENCE_S, every=0.05, what=what)


def _streams(server: Server) -> bool:
    """Whether what was written so far is on the replica. A write of any kind moves the offset, a PUBLISH too."""
    try:
        with server.client() as client:
            client.publish("streams", "now")
            return bool(client.wait(1, 500))
    except redis.exceptions.RedisError:
        return False


def lay(kind: str, durability: str, server: str) -> Ground:
    match kind:
        case "sentinel":
            return OnSentinel(durability)
        case "cluster":
            return OnCluster()
        case "durable":
            return OnDurable()
    return Ground(find_binaries().valkey if server == "valkey" else None)
