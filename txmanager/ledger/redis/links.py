"""From a key to the primary that serves it: one server, Sentinel, or Cluster, behind one `Link`.

URL forms: `redis://[user:pass@]host:port/db`, `redis+sentinel://host:port,host:port/service/db`,
`redis+cluster://host:port,host:port`; `rediss`, `rediss+sentinel` and `rediss+cluster` speak TLS.
"""

from __future__ import annotations

import asyncio
from binascii import crc_hqx
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from txmanager.core.errors import InvalidSettings, Misconfigured, Unavailable, Unconfirmed
from txmanager.ledger.redis.wire import Address, Command, ReplyError, Wire

_MOVE_ON = {"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED"}
"""Error replies that say "not here, not now": nothing was executed, the topology is read again."""


def key_slot(key: bytes) -> int:
    """The cluster slot of a key, by its hash tag. Asking redis-py would load all of it, a third of a start."""
    tag = key.partition(b"{")[2].partition(b"}")
    return crc_hqx(tag[0] if tag[0] and tag[1] else key, 0) % 16384


class Link(Protocol):
    """Commands of one call share a slot and run on one connection, adjacent to each other."""

    async def call(self, key: str, commands: Sequence[Command], *, durable: bool = False) -> list[Any]: ...

    one_server: bool
    """Whether one script may touch any keys."""

    def group(self, key: str) -> int:
        """Keys of one group may share a call."""
        ...

    async def everywhere(self, commands: Sequence[Command]) -> list[list[Any]]:
        """The replies of every primary."""
        ...

    async def primaries(self) -> list[Address]: ...

    def scan(self, pattern: str) -> AsyncIterator[bytes]:
        """Every key of every primary that looks like this; some may come twice."""
        ...

    async def close(self) -> None: ...


class Dial:
    """How to reach servers: time-out, and what a durable call waits for."""

    def __init__(self, timeout_s: float = 1.0, replicas: int = 0, wait_ms: int = 500) -> None:
        self.timeout_s = timeout_s
        self.replicas = replicas
        self.wait_ms = wait_ms


class Node:
    """One server: a wire for everything, and one of its own for calls that wait for replicas."""

    def __init__(self, address: Address, dial: Dial) -> None:
        self.address = address
        self._dial = dial
        self._wires: dict[bool, Wire] = {}
        self._opening: dict[bool, asyncio.Task[Wire]] = {}
        self._closed = False

    async def call(self, commands: Sequence[Command], durable: bool) -> list[Any]:
        waits = durable and self._dial.replicas > 0
        wire = self._wires.get(waits)
        if wire is None or wire.closed:
            if self._closed:
                raise Unavailable(f"the connection to Redis at {self.address!r} is closed")
            wire = await self._open(waits)
        return await wire.call(commands)

    async def _open(self, waits: bool) -> Wire:
        """One attempt to connect at a time, shared by all callers and surviving the cancellation of any."""
        task = self._opening.get(waits)
        if task is None:
            replicas = self._dial.replicas if waits else 0
            timeout_s = self._dial.timeout_s + (self._dial.wait_ms / 1000 if waits else 0)
            task = asyncio.create_task(Wire.open(self.address, timeout_s, replicas, self._dial.wait_ms))
            self._opening[waits] = task
            task.add_done_callback(lambda done: self._opened(waits, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and not (caller and caller.cancelling()):
                # `close` ended the attempt, nobody cancelled the caller: it must not die of it
                raise Unavailable(f"the connection to Redis at {self.address!r} was given up; retry") from None
            raise

    def _opened(self, waits: bool, task: asyncio.Task[Wire]) -> None:
        self._opening.pop(waits, None)
        if not task.cancelled() and task.exception() is None:
            self._wires[waits] = task.result()

    def close(self) -> None:
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        for wire in self._wires.values():
            wire.abort()


Ask = Callable[[Sequence[Command]], Awaitable[list[Any]]]


async def _scan(ask: Ask, pattern: str) -> AsyncIterator[bytes]:
    cursor = b"0"
    while True:
        [reply] = await ask([("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)])
        if isinstance(reply, ReplyError):
            raise Unavailable(f"Redis cannot be scanned now: {reply}")
        cursor, keys = reply
        for key in keys:
            yield key
        if cursor == b"0":
            return


def _blocked(replies: Sequence[Any]) -> ReplyError | None:
    return next((r for r in replies if isinstance(r, ReplyError) and r.kind in _MOVE_ON), None)


class SingleLink:
    one_server = True

    def __init__(self, address: Address, dial: Dial) -> None:
        self._node = Node(address, dial)

    async def call(self, key: str, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        replies = await self._node.call(commands, durable)
        if error := _blocked(replies):
            raise Unavailable(f"Redis at {self._node.address!r} is not ready: {error}")
        return replies

    def group(self, key: str) -> int:
        return 0

    async def everywhere(self, commands: Sequence[Command]) -> list[list[Any]]:
        return [await self.call("", commands)]

    async def primaries(self) -> list[Address]:
        return [self._node.address]

    def scan(self, pattern: str) -> AsyncIterator[bytes]:
        return _scan(partial(self.call, ""), pattern)

    async def close(self) -> None:
        self._node.close()


class SentinelLink:
    """Asks the sentinels who is primary, again after every lost connection and every READONLY."""

    one_server = True

    def __init__(self, sentinels: Sequence[Address], service: str, template: Address, dial: Dial) -> None:
        self._sentinels = list(sentinels)
        self._service = service
        self._template = template
        self._dial = dial
        self._node: Node | None = None
        self._suspect = False

    async def call(self, key: str, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        node = await self._primary()
        try:
            replies = await node.call(commands, durable)
        except Unconfirmed:
            self._suspect = True  # perhaps it was deposed and has lost its replicas to the new primary
            raise
        except Unavailable:
            self._drop(node)
            raise
        if error := _blocked(replies):
            self._drop(node)
            raise Unavailable(f"the primary of {self._service!r} is changing: {error}")
        return replies

    async def _primary(self) -> Node:
        if self._node is None or self._suspect:
            self._suspect = False
            address = self._template.at(*await self._discover())
            if self._node is None or self._node.address != address:
                if self._node is not None:
                    self._node.close()
                self._node = Node(address, self._dial)
        return self._node

    async def _discover(self) -> tuple[str, int]:
        for sentinel in self._sentinels:
            node = Node(sentinel, self._dial)
            try:
                [reply] = await node.call([("SENTINEL", "get-master-addr-by-name", self._service)], False)
            except Unavailable:
                continue
            finally:
                node.close()
            if isinstance(reply, list):
                return reply[0].decode(), int(reply[1])
            if reply is None:
                raise Misconfigured(f"the sentinels know no service {self._service!r}")
        raise Unavailable(f"none of {len(self._sentinels)} sentinels answers")

    def _drop(self, node: Node) -> None:
        if self._node is node:
            self._node = None
            node.close()

    def group(self, key: str) -> int:
        return 0

    async def everywhere(self, commands: Sequence[Command]) -> list[list[Any]]:
        return [await self.call("", commands)]

    async def primaries(self) -> list[Address]:
        return [self._template.at(*await self._discover())]

    def scan(self, pattern: str) -> AsyncIterator[bytes]:
        return _scan(partial(self.call, ""), pattern)

    async def close(self) -> None:
        if self._node is not None:
            self._node.close()


class ClusterLink:
    """Keeps the slot map; follows MOVED and ASK, reads the map again when a node is away."""

    one_server = False

    def __init__(self, seeds: Sequence[Address], dial: Dial) -> None:
        self._seeds = list(seeds)
        self._dial = dial
        self._nodes: dict[tuple[str, int], Node] = {}
        self._slots: list[tuple[str, int] | None] = []
        self._reading: asyncio.Task[None] | None = None

    async def call(self, key: str, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        slot = key_slot(key.encode())
        for _ in range(5):
            node = await self._serving(slot)
            try:
                replies = await node.call(commands, durable)
            except Unavailable:
                self._slots = []
                raise
            redirect = next((r for r in replies if isinstance(r, ReplyError) and r.kind in ("MOVED", "ASK")), None)
            if redirect is None:
                return self._unblocked(slot, replies)
            kind, _, target = str(redirect).split(" ")[:3]
            host, _, port = target.rpartition(":")
            address = (host or node.address.host, int(port))
            if kind == "ASK":
                # every command is asked for: the first that executes here makes the others run here too
                asked: list[Command] = [c for command in commands for c in (("ASKING",), command)]
                return self._unblocked(slot, (await self._node(address).call(asked, durable))[1::2])
            if self._slots:  # else another call threw the map away: it is read again, not patched
                self._slots[slot] = address
        raise Unavailable(f"slot {slot} kept moving")

    def _unblocked(self, slot: int, replies: list[Any]) -> list[Any]:
        if error := _blocked(replies):
            self._slots = []
            raise Unavailable(f"slot {slot} is changing hands: {error}")
        return replies

    def _node(self, address: tuple[str, int]) -> Node:
        if address not in self._nodes:
            self._nodes[address] = Node(self._seeds[0].at(*address), self._dial)
        return self._nodes[address]

    async def _serving(self, slot: int) -> Node:
        while not self._slots:  # another call may throw the map away before this one looks at it
            await self._read_map()
        address = self._slots[slot]
        if address is None:
            self._slots = []
            raise Unavailable(f"no node serves slot {slot}")
        return self._node(address)

    async def _read_map(self) -> None:
        # One that is done already is the past: whoever waits for it again waits for nothing, and would spin for ever.
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_map_once())
            self._reading.add_done_callback(self._map_read)
        await asyncio.shield(self._reading)

    def _map_read(self, task: asyncio.Task[None]) -> None:
        if self._reading is task:
            self._reading = None
        if not task.cancelled():
            task.exception()

    async def _read_map_once(self) -> None:
        known = [self._seeds[0].at(*address) for address in self._nodes]
        for seed in (*known, *self._seeds):
            try:
                [reply] = await self._node((seed.host, seed.port)).call([("CLUSTER", "SLOTS")], False)
            except Unavailable:
                continue
            if isinstance(reply, ReplyError):
                raise Misconfigured(f"{seed!r} is not part of a cluster: {reply}")
            slots: list[tuple[str, int] | None] = [None] * 16384
            for first, last, (host, port, *_), *_ in reply:
                name = host.decode() if host else seed.host
                slots[first : last + 1] = [(name, port)] * (last + 1 - first)
            self._slots = slots
            return
        raise Unavailable("no node of the cluster answers")

    def group(self, key: str) -> int:
        return key_slot(key.encode())

    async def everywhere(self, commands: Sequence[Command]) -> list[list[Any]]:
        nodes = [self._node((a.host, a.port)) for a in await self.primaries()]
        try:
            return await asyncio.gather(*(node.call(commands, False) for node in nodes))
        except Unavailable:
            self._slots = []
            raise

    async def primaries(self) -> list[Address]:
        while not self._slots:
            await self._read_map()
        return [self._seeds[0].at(*address) for address in sorted({a for a in self._slots if a})]

    async def scan(self, pattern: str) -> AsyncIterator[bytes]:
        for address in await self.primaries():
            node = self._node((address.host, address.port))
            async for key in _scan(partial(node.call, durable=False), pattern):
                yield key

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        for node in self._nodes.values():
            node.close()


def connect(url: str, dial: Dial) -> Link:
    """A link for any of the URL forms; nothing is connected yet."""
    parts = urlsplit(url)
    scheme, _, form = parts.scheme.partition("+")
    if scheme not in ("redis", "rediss") or form not in ("", "sentinel", "cluster"):
        raise InvalidSettings(
            "ledger.url", "must begin with redis://, redis+sentinel:// or redis+cluster:// (or rediss for TLS)"
        )
    userinfo, _, hosts = parts.netloc.rpartition("@")
    username, _, password = userinfo.partition(":")
    path = [p for p in parts.path.split("/") if p]
    service = path.pop(0) if form == "sentinel" and path else ""
    if form == "sentinel" and not service:
        raise InvalidSettings("ledger.url", "names no service: redis+sentinel://host:port,host:port/service")
    try:
        addresses = [
            Address(
                host=host.rpartition(":")[0] or host,
                port=int(host.rpartition(":")[2]) if ":" in host else (26379 if form == "sentinel" else 6379),
                username=unquote(username) or None,
                password=unquote(password) or None,
                db=int(path[0]) if path else 0,
                tls=scheme == "rediss",
            )
            for host in hosts.split(",")
        ]
    except ValueError:
        raise InvalidSettings("ledger.url", "has a port or database that is not a number") from None
    if form == "cluster":
        if addresses[0].db:
            raise InvalidSettings("ledger.url", "a cluster has database 0 only")
        return ClusterLink(addresses, dial)
    if form == "sentinel":
        sentinels = [Address(a.host, a.port, tls=a.tls) for a in addresses]
        return SentinelLink(sentinels, service, addresses[0], dial)
    return SingleLink(addresses[0], dial)
