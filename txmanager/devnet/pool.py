"""A chunk producer's pool: transactions grouped by key, each group in ascending nonce.

Taking goes round the groups, one transaction a pass, so no key starves another. A pool that is full
drops silently, as the protocol's does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from .model import Tx

Lane = tuple[str, str, int | None]
MAX_BYTES = 100_000_000


class Pool:
    __slots__ = ("_groups", "_hashes", "bytes")

    def __init__(self) -> None:
        self._groups: dict[Lane, list[tuple[int, bytes, Tx]]] = {}
        self._hashes: set[bytes] = set()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, tx: Tx) -> bool:
        if tx.hash in self._hashes or self.bytes + tx.size > MAX_BYTES:
            return False
        self._hashes.add(tx.hash)
        self.bytes += tx.size
        # The hash breaks ties, so two transactions with one nonce have an order that no clock decides.
        heapq.heappush(self._groups.setdefault(tx.lane, []), (tx.nonce, tx.hash, tx))
        return True

    def take(self) -> Iterator[Tx]:
        """Pops transactions in the order a chunk takes them; stop iterating when the chunk is full."""
        while self._groups:
            for lane in list(self._groups):
                group = self._groups[lane]
                _, digest, tx = heapq.heappop(group)
                if not group:
                    del self._groups[lane]
                self._hashes.discard(digest)
                self.bytes -= tx.size
                yield tx
