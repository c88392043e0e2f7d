"""`Upstream`: what a gateway asks of a node: read bytes, look at an account, send once, pass a question on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from txmanager.core.chain import SendReply
from txmanager.core.errors import TxManagerError
from txmanager.core.given import Given
from txmanager.core.models import Json
from txmanager.core.values import value


class NotTaken(TxManagerError):
    """Bytes that no node takes, with geth's words for it. `malformed`: they are no transaction at all."""

    code = "not_taken"

    def __init__(self, words: str, malformed: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.malformed = malformed


class AnswerTooLong(TxManagerError):
    code = "answer_too_long"

    def __init__(self, most: int) -> None:
        super().__init__(f"a node's answer has more than {most} bytes")
        self.most = most


@value(frozen=True, slots=True)
class Seen:
    """One account at one block, all from one node in one batch."""

    block_hash: str
    height: int
    count: int
    balance: int
    pending: int | None = None
    """The node's own pending count, where it has a pool."""


@value(frozen=True, slots=True)
class Found:
    """A hash as a node knows it: in a block, in its pool, or not at all."""

    known: bool
    height: int | None
    """Of the block it is in."""


class Upstream(Protocol):
    @property
    def chain_id(self) -> int: ...

    @property
    def strict(self) -> bool:
        """The node has no mempool, and charges for what it refuses."""
        ...

    @property
    def resend_after_s(self) -> float:
        """After this time, bytes that did not land go again; a pool may have dropped them."""
        ...

    def read(self, text: str) -> Given:
        """0x hex of a signed transaction; raises `NotTaken`."""
        ...

    def show(self, raw: bytes, sender: str) -> dict[str, Json]:
        """The transaction object of a pending transaction."""
        ...

    def line(self, raw: bytes) -> str:
        """The same as one line for people."""
        ...

    def checksummed(self, address: str) -> str: ...

    async def verify(self) -> None:
        """Raises `Misconfigured` when the node serves another chain."""
        ...

    async def height(self) -> int: ...

    async def look(self, sender: str) -> Seen: ...

    async def look_many(self, senders: Sequence[str]) -> dict[str, Seen]: ...

    async def settled(self, height: int) -> int:
        """The highest final block while the newest one is at `height`; -1 when none is."""
        ...

    async def count_at(self, sender: str, height: int) -> int: ...

    async def canonical(self, block_hash: str) -> bool:
        """Whether the node still has that block on its chain."""
        ...

    async def find(self, hashes: Sequence[str]) -> list[Found | None]:
        """None where the node did not answer."""
        ...

    async def send(self, sender: str, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
        """Write the bytes once, if `may` still says so the moment before. Where it does not, nothing was sent and the
        verdict is `BUSY`."""
        ...

    async def forward(self, body: bytes, *, pinned: bool = False) -> bytes:
        """A request as it is, answered as the node answers; `pinned` to one node. Raises `Unavailable`."""
        ...

    async def close(self) -> None: ...
