"""Who may keep a connection open: a place each, counted from the moment it is accepted.

`limit` places are for everybody. A few more are kept for probes, so that `/healthz`, `/readyz` and `/metrics` answer
while all others are taken. When the places are gone, whoever does nothing with its own gives it up first: an idle
keep-alive connection, then one that has sent no request, then one that does not read. Nobody who waits for an answer
is sent away for a newcomer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from time import monotonic
from typing import Protocol

import structlog

from txmanager.api.metrics import ApiMetrics

SPARE = 64
"""Places for probes, above the limit."""
PROBES = frozenset({b"/healthz", b"/readyz", b"/metrics"})
_LOOK_EVERY_S = 0.2
_LINES_PER_REPORT = 20


class Idle(StrEnum):
    """How a connection uses nothing of its place, in the order in which such connections are given up."""

    KEPT_ALIVE = "idle"
    NO_REQUEST = "no_request"
    STALLED = "stalled"


_ORDER = list(Idle)


class Client(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def asked(self) -> bool:
        """Whether a request of it ever arrived."""
        ...

    def idling(self, now: float) -> tuple[Idle, float] | None:
        """How and since when it does nothing with its place, if so."""
        ...

    def drop(self, reason: str) -> None:
        """Close it at once and say why."""
        ...


class Places:
    def __init__(self, limit: int, metrics: ApiMetrics, now: Callable[[], float] = monotonic) -> None:
        self.limit = limit
        self._metrics = metrics
        self._now = now
        self._ordinary: set[Client] = set()
        self._spare: dict[Client, None] = {}
        self._idlers: deque[Client] = deque()
        self._looked = float("-inf")
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._unsent: Counter[tuple[str, str]] = Counter()
        self._log = structlog.get_logger("api")

    def take(self, client: Client) -> bool:
        """A place for a new connection; False when there is none, not even a spare one."""
        if not self._ordinary_place(client):
            if len(self._spare) >= SPARE and not self._free_spare():
                return False
            self._spare[client] = None
        self._count()
        return True

    def may_ask(self, client: Client, path: bytes) -> bool:
        """Whether its request is served: from a spare place only a probe is, unless an ordinary one is free by now."""
        if client not in self._spare or path in PROBES:
            return True
        if not self._ordinary_place(client):
            return False
        del self._spare[client]
        return True

    def is_spare(self, client: Client) -> bool:
        return client in self._spare

    def leave(self, client: Client) -> None:
        self._ordinary.discard(client)
        self._spare.pop(client, None)
        self._count()

    def _ordinary_place(self, client: Client) -> bool:
        if len(self._ordinary) >= self.limit and not self._evict():
            return False
        self._ordinary.add(client)
        return True

    def _evict(self) -> bool:
        now = self._now()
        while True:
            while self._idlers:
                client = self._idlers.popleft()
                if client in self._ordinary and (found := client.idling(now)) is not None:
                    self._ordinary.discard(client)
                    client.drop(found[0].value)
                    return True
            if now - self._looked < _LOOK_EVERY_S:
                return False  # a flood of newcomers must not make us look at every connection for each of them
            self._looked = now
            found_idle = ((client, client.idling(now)) for client in self._ordinary)
            idlers = [(client, found) for client, found in found_idle if found is not None]
            idlers.sort(key=lambda one: (_ORDER.index(one[1][0]), one[1][1]))
            self._idlers.extend(client for client, _ in idlers)
            if not self._idlers:
                return False

    def _free_spare(self) -> bool:
        """A probe sends its request at once: the oldest that has not yet makes room."""
        now = self._now()
        for client in self._spare:
            if not client.asked or client.idling(now) is not None:
                del self._spare[client]
                client.drop(Idle.NO_REQUEST.value)
                return True
        return False

    def _count(self) -> None:
        self._metrics.connections.set(len(self._ordinary) + len(self._spare))

    # -- what is said of those who were sent away

    def dropped(self, client: Client, reason: str, unsent: int = 0) -> None:
        self._metrics.aborted(reason)
        self._dropped[reason, client.address] += 1
        self._unsent[reason, client.address] += unsent

    def report(self) -> None:
        """One line per reason and address, however many connections: a flood must not become a flood of log lines."""
        for (reason, address), count in self._dropped.most_common(_LINES_PER_REPORT):
            unsent = self._unsent[reason, address]
            self._log.warning("clients aborted", reason=reason, address=address, count=count, unsent_bytes=unsent)
        if len(self._dropped) > _LINES_PER_REPORT:
            self._log.warning("clients aborted", reason="more", addresses=len(self._dropped) - _LINES_PER_REPORT)
        self._dropped.clear()
        self._unsent.clear()
