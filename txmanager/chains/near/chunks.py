"""The walk over chunks: every transaction of one signer between a final block and a base height.

Blocks are linked by hash and chunks are named by theirs, so it does not matter which node behind a balancer answers.
Every chunk that a block newly includes is read, whatever shards there are at its height: a split changes nothing.
Incomplete is an error: a walk that cannot see everything answers nothing, and names what is missing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from txmanager.chains.near.views import Ask, BlockHead, mapping, number, text, view_block
from txmanager.rpc.errors import BadAnswer, RpcError, RpcFailure

_ABREAST = 16
_GONE = ("UNKNOWN_BLOCK", "UNKNOWN_CHUNK", "GARBAGE_COLLECTED_BLOCK")
_REMEMBERED = 4_096
_NO_TRANSACTIONS = "1" * 32
"""The root of an empty list, as nearcore writes it."""
Chunk = tuple[str, str]
"""The hash of a chunk and the root of its transactions, as the block that includes it has them."""
Block = tuple[BlockHead, tuple[Chunk, ...]]
"""A block and the chunks it newly includes."""


class Collected(RpcFailure):
    """A header or chunk that the walk needs is not there any more: only an archival node has it."""

    code = "rpc_collected"


class ChunkWalk:
    """Remembers what it read: blocks and chunks never change."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[str, Block] = OrderedDict()
        self._chunks: OrderedDict[str, frozenset[tuple[str, str]]] = OrderedDict()

    async def transactions(self, ask: Ask, head: BlockHead, base: int, signer_id: str) -> frozenset[str]:
        """Hashes of the signer's transactions in all blocks above `base` up to `head`."""
        await self._prefetch(ask, base + 1, head.height)
        wanted: list[Chunk] = []
        name, above = head.hash_text, head.height + 1
        while True:
            try:
                block, chunks = await self._block(ask, {"block_id": name}, name)
            except RpcError as error:
                if error.cause in _GONE:
                    raise Collected(f"the block {name} below height {above} is gone ({error.cause})") from None
                raise
            if block.height >= above:
                raise BadAnswer(f"block {name} is not below its successor")
            if block.height <= base:
                break
            wanted.extend(chunks)
            name, above = block.prev_hash, block.height
        found: set[str] = set()
        for start in range(0, len(wanted), _ABREAST):
            for chunk in await asyncio.gather(*(self._chunk(ask, c) for c in wanted[start : start + _ABREAST])):
                found.update(tx_hash for signer, tx_hash in chunk if signer == signer_id)
        return frozenset(found)

    async def _prefetch(self, ask: Ask, low: int, high: int) -> None:
        """By height, several at once; the links by hash, checked afterwards, decide what counts."""
        known = {block.height for block, _ in self._blocks.values()}
        heights = [h for h in range(low, high + 1) if h not in known]

        async def fetch(height: int) -> None:
            try:
                await self._block(ask, {"block_id": height}, None)
            except RpcError:
                return  # a skipped height has no block

        for start in range(0, len(heights), _ABREAST):
            await asyncio.gather(*(fetch(h) for h in heights[start : start + _ABREAST]))

    async def _block(self, ask: Ask, reference: Mapping[str, Any], name: str | None) -> Block:
        if name is not None and name in self._blocks:
            return self._blocks[name]
        head, headers = await view_block(ask, reference)
        if name is not None and head.hash_text != name:
            raise BadAnswer(f"asked for block {name}, got {head.hash_text}")
        chunks = []
        for entry in headers:
            header = mapping(entry, "a chunk header")
            if number(header.get("height_included"), "height_included") == head.height:
                chunks.append((text(header.get("chunk_hash"), "chunk_hash"), text(header.get("tx_root"), "tx_root")))
        _remember(self._blocks, head.hash_text, (head, tuple(chunks)))
        return head, tuple(chunks)

    async def _chunk(self, ask: Ask, chunk: Chunk) -> frozenset[tuple[str, str]]:
        """What a chunk holds must fit its root in the block: transactions left out altogether are noticed here, some of
        several only by another node's walk (an answer lacks the bytes that the root is made of)."""
        name, root = chunk
        if name in self._chunks:
            return self._chunks[name]
        try:
            answer = mapping(await ask("chunk", {"chunk_id": name}), "a chunk")
        except RpcError as error:
            if error.cause in _GONE:
                raise Collected(f"the chunk {name} is gone ({error.cause})") from None
            raise
        header = mapping(answer.get("header"), "a chunk's header")
        if header.get("chunk_hash") != name or header.get("tx_root") != root:
            raise BadAnswer(f"asked for chunk {name}, got another")
        transactions = answer.get("transactions")
        if not isinstance(transactions, list):
            raise BadAnswer("a chunk has no transactions")
        if bool(transactions) == (root == _NO_TRANSACTIONS):
            raise BadAnswer(f"the transactions of chunk {name} are not those of its root")
        pairs = frozenset(
            (text(tx.get("signer_id"), "signer_id"), text(tx.get("hash"), "hash"))
            for tx in (mapping(t, "a transaction") for t in transactions)
        )
        _remember(self._chunks, name, pairs)
        return pairs


def _remember(store: OrderedDict[str, Any], name: str, value: Any) -> None:
    store[name] = value
    while len(store) > _REMEMBERED:
        store.popitem(last=False)
