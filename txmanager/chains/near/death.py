"""Proof of death: the only ground on which an intent is ever signed again.

1. First, at a final block F: the key's nonce is >= n, or F is beyond the validity of the bytes. From then on the
   chain refuses them for ever.
2. Then: no block up to F holds them. Either one identified node that tracks the shard and keeps that age says
   UNKNOWN_TRANSACTION, or a walk over every chunk from F back to the base block does not meet them.

The other order proves nothing (they might land in between), nor does anything less: a time-out, a lagging node,
answers of several nodes, a node that may have collected that age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from txmanager.chains.near.chunks import ChunkWalk, Collected
from txmanager.chains.near.names import LaneId
from txmanager.chains.near.views import FINAL, Ask, mapping, number, text, view_block, view_lane
from txmanager.core.chain import Proof
from txmanager.core.models import Attempt, Json
from txmanager.rpc.errors import RpcError, RpcFailure
from txmanager.rpc.protocol import JsonRpc, Node

_log = structlog.get_logger("near")
LOOK_UP_TIMEOUT_S = 15.0
"""A node may poll for 10 s before it says that it does not know."""
KEPT_EPOCHS = 4
"""Nodes keep five; one is left as a margin."""
Fate = Literal["dead", "landed", "undecided"]


@dataclass(frozen=True, slots=True)
class Facts:
    validity_blocks: int
    epoch_blocks: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answered `status`, and what it keeps."""

    node: str
    head: int
    earliest: int | None
    syncing: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The lane at one final block."""

    height: int
    block_hash: str
    nonce: int | None

    def doom(self, attempt: Attempt, facts: Facts) -> Literal["overtaken", "expired"] | None:
        """Why the chain can never take these bytes after this block, if it cannot."""
        if self.nonce is not None and self.nonce >= attempt.nonce:
            return "overtaken"
        return "expired" if self.height > attempt.base_height + facts.validity_blocks else None


class DeathProver:
    def __init__(self, rpc: JsonRpc, facts: Callable[[], Awaitable[Facts]], scan_blocks: int) -> None:
        self._rpc = rpc
        self._facts = facts
        self._scan_blocks = scan_blocks
        self._walk = ChunkWalk()
        self._reported: set[str] = set()

    async def prove(self, lane_id: str, lane: LaneId, attempts: Sequence[Attempt]) -> list[Proof | None]:
        facts = await self._facts()
        group = f"{lane_id}/proof"
        proofs: dict[str, Proof | None] = {}
        for node in self._rpc.nodes:
            left = [a for a in attempts if a.hash not in proofs]
            if not left or not node.direct or not node.ready:
                continue
            try:
                proofs |= await self._by_node(node, group, lane, left, facts)
            except RpcFailure:
                continue  # says nothing about the transactions; another node or the chunks may
        left = [a for a in attempts if a.hash not in proofs]
        if left:
            try:
                proofs |= await self._by_chunks(_bound(self._rpc, group), lane, left, facts)
            except Collected as gone:
                if str(gone) not in self._reported:  # it stays gone: once is enough
                    self._reported.add(str(gone))
                    wanted = [a.hash for a in left]
                    _log.warning("no proof by chunks: an archival endpoint is needed", why=str(gone), attempts=wanted)
            except RpcFailure:
                pass  # says nothing about the transactions; the next look asks again
        return [proofs.get(attempt.hash) for attempt in attempts]

    async def _by_node(
        self, node: Node, group: str, lane: LaneId, attempts: Sequence[Attempt], facts: Facts
    ) -> dict[str, Proof | None]:
        ask = _bound(node, group)
        before = await _identify(ask)
        reading = await _read(ask, lane)
        doomed = {a.hash: cause for a in attempts if (cause := reading.doom(a, facts)) is not None}
        candidates = [a for a in attempts if a.hash in doomed]
        fates = await asyncio.gather(*(_fate(ask, lane, a) for a in candidates))
        after = await _identify(ask)
        # One and the same node, which has seen F: otherwise the two halves of the proof do not belong together.
        if before.node != after.node or after.head < reading.height or before.syncing or after.syncing:
            return {}
        decided: dict[str, Proof | None] = {a.hash: None for a in attempts if a.hash not in doomed}
        for attempt, fate in zip(candidates, fates, strict=True):
            if fate == "landed":
                decided[attempt.hash] = None
            elif fate == "dead" and _keeps(node, after, attempt, facts):
                evidence = {"by": "node", "node": node.name, "node_key": after.node}
                decided[attempt.hash] = _proof(doomed[attempt.hash], attempt, reading, evidence)
        return decided

    async def _by_chunks(
        self, ask: Ask, lane: LaneId, attempts: Sequence[Attempt], facts: Facts
    ) -> dict[str, Proof | None]:
        head, _ = await view_block(ask, FINAL)
        key = await view_lane(ask, lane, {"block_id": head.hash_text})
        if key is not None and key.block_hash != head.hash_text:
            return {}
        reading = Reading(head.height, head.hash_text, None if key is None else key.nonce)
        doomed = {
            a.hash: cause
            for a in attempts
            if head.height - a.base_height <= self._scan_blocks and (cause := reading.doom(a, facts)) is not None
        }
        candidates = [a for a in attempts if a.hash in doomed]
        if not candidates:
            return {}
        base = min(a.base_height for a in candidates)
        landed = await self._walk.transactions(ask, head, base, lane.account_id)
        evidence = {"by": "chunks", "from_height": str(base)}
        return {a.hash: None if a.hash in landed else _proof(doomed[a.hash], a, reading, evidence) for a in candidates}


def _proof(
    cause: Literal["overtaken", "expired"], attempt: Attempt, reading: Reading, evidence: Mapping[str, Json]
) -> Proof:
    return Proof(
        cause,
        {
            **evidence,
            "nonce": str(attempt.nonce),
            "base_height": str(attempt.base_height),
            "final_height": str(reading.height),
            "final_block": reading.block_hash,
            "final_nonce": None if reading.nonce is None else str(reading.nonce),
        },
    )


def _keeps(node: Node, identity: Identity, attempt: Attempt, facts: Facts) -> bool:
    """Whether the node would still know the transaction, had it ever landed."""
    if identity.earliest is not None and identity.earliest > attempt.base_height + 1:
        return False
    # The head decides what a node collects; it may have moved on since F.
    return node.archival or identity.head < attempt.base_height + KEPT_EPOCHS * facts.epoch_blocks


async def _identify(ask: Ask) -> Identity:
    answer = mapping(await ask("status", []), "a status")
    sync = mapping(answer.get("sync_info"), "sync_info")
    earliest = sync.get("earliest_block_height")
    return Identity(
        node=text(answer.get("node_public_key"), "node_public_key"),
        head=number(sync.get("latest_block_height"), "latest_block_height"),
        earliest=None if earliest is None else number(earliest, "earliest_block_height"),
        syncing=sync.get("syncing") is not False,
    )


async def _read(ask: Ask, lane: LaneId) -> Reading:
    key = await view_lane(ask, lane, FINAL)
    if key is not None:
        return Reading(key.height, key.block_hash, key.nonce)
    # A deleted key proves nothing (it may come back, with a nonce of its own choosing); the height still may.
    head, _ = await view_block(ask, FINAL)
    return Reading(head.height, head.hash_text, None)


async def _fate(ask: Ask, lane: LaneId, attempt: Attempt) -> Fate:
    params = {"tx_hash": attempt.hash, "sender_account_id": lane.account_id, "wait_until": "NONE"}
    try:
        await ask("tx", params)
    except RpcError as error:
        requested = error.info.get("requested_transaction_hash", attempt.hash)
        return "dead" if error.cause == "UNKNOWN_TRANSACTION" and requested == attempt.hash else "undecided"
    except RpcFailure:
        return "undecided"
    return "landed"


def _bound(target: Node | JsonRpc, group: str) -> Ask:
    async def ask(method: str, params: Any) -> Any:
        timeout = LOOK_UP_TIMEOUT_S if method == "tx" else None
        return await target.call(method, params, group=group, timeout=timeout)

    return ask
