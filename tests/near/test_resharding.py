"""A proof by chunks across a split: shards come and go between the blocks of one walk."""

from __future__ import annotations

import hashlib
from typing import Any

import base58
import pytest
import structlog

from tests.near.world import ALICE, lane_of, transfer
from txmanager.chains.near import NearChain, NearNetwork
from txmanager.core.chain import Prepared, Proof
from txmanager.core.models import Attempt, Purpose
from txmanager.rpc import InProcessNode, InProcessRpc

EMPTY_ROOT = "1" * 32


def name(*parts: object) -> str:
    return base58.b58encode(hashlib.sha256(repr(parts).encode()).digest()).decode()


class SplitChain:
    """Blocks 100 to 139. Shard 1 splits into 2 and 3 at height 120; heights in `skipped` have no block, and the chunks
    in `missed`, by (height, shard), were not produced: the block repeats the header of the one before."""

    def __init__(self, skipped: frozenset[int] = frozenset(), missed: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.heights = [h for h in range(100, 140) if h not in skipped]
        self.blocks: dict[str, dict[str, Any]] = {}
        self.by_height: dict[int, str] = {}
        self.chunks: dict[str, dict[str, Any]] = {}
        self.landed: dict[tuple[int, int], list[str]] = {}
        """Hashes of ALICE's transactions, by the height and the shard they landed in."""
        self.missed = missed
        self.nonce = 0
        self.gone_below = 0

    @staticmethod
    def layout(height: int) -> list[int]:
        return [0, 1] if height < 120 else [0, 2, 3]

    def make(self) -> None:
        before: dict[int, dict[str, Any]] = {}
        prev = name("genesis")
        for height in self.heights:
            headers = []
            for shard in self.layout(height):
                told = before.get(shard) or before.get(1)
                if (height, shard) in self.missed and told is not None:
                    headers.append(told)  # both children repeat their parent's last one
                    continue
                hashes = self.landed.get((height, shard), [])
                chunk = name("chunk", height, shard)
                root = name("root", *hashes) if hashes else EMPTY_ROOT
                header = {"chunk_hash": chunk, "tx_root": root, "height_included": height, "shard_id": shard}
                self.chunks[chunk] = {
                    "header": header,
                    "transactions": [{"signer_id": ALICE.account_id, "hash": one} for one in hashes],
                }
                headers.append(header)
            before = {h["shard_id"]: h for h in headers} | ({1: before[1]} if 1 in before and height >= 120 else {})
            block = name("block", height)
            header = {"hash": block, "height": height, "prev_hash": prev, "epoch_id": "old" if height < 120 else "new"}
            self.blocks[block] = {"header": header, "chunks": headers}
            self.by_height[height] = prev = block

    @property
    def head(self) -> dict[str, Any]:
        return self.blocks[self.by_height[self.heights[-1]]]

    async def handle(self, method: str, params: Any) -> Any:
        if method == "block":
            wanted = params.get("block_id", self.head["header"]["hash"])
            found = self.blocks.get(self.by_height.get(wanted, "") if isinstance(wanted, int) else wanted)
            if found is None or found["header"]["height"] < self.gone_below:
                return {"error": {"cause": {"name": "UNKNOWN_BLOCK", "info": {}}, "code": -32000}}
            return {"result": found}
        if method == "chunk":
            return {"result": self.chunks[params["chunk_id"]]}
        if method == "query" and params["request_type"] == "view_access_key":
            header = self.head["header"]
            told = {"nonce": self.nonce, "permission": "FullAccess"}
            return {"result": {**told, "block_height": header["height"], "block_hash": header["hash"]}}
        if method == "query":
            return {"result": {"amount": str(10**27), "locked": "0", "storage_usage": 100, "block_height": 139}}
        return {"error": {"cause": {"name": "METHOD_NOT_FOUND", "info": {}}, "code": -32601}}


def open_chain(split: SplitChain) -> tuple[NearChain, str]:
    lane, signer = lane_of(ALICE)
    balanced = InProcessNode(split.handle, "balanced", False, False)
    settings = NearNetwork(86_400, 20_000, head_fresh_s=0.0, head_max_age_s=0.0)
    return NearChain("localnet", (), {lane: signer}, rpc=InProcessRpc([balanced]), settings=settings), lane


async def attempts(count: int) -> list[Attempt]:
    """Signed against height 100."""
    before = SplitChain()
    before.heights = [100]
    before.make()
    chain, lane = open_chain(before)
    ready = [p for p in await chain.prepare(lane, [transfer(f"k{n}") for n in range(count)]) if isinstance(p, Prepared)]
    return await chain.sign(lane, ready, 1, Purpose.FIRST, 0)


PLACES = [(101, 0), (119, 1), (120, 2), (120, 3), (121, 0), (130, 3), (139, 2)]
MISSED = [frozenset(), frozenset({(119, 1), (120, 2), (120, 3)}), frozenset({(118, 1), (119, 1), (120, 2), (121, 2)})]


@pytest.mark.parametrize("missed", MISSED, ids=["none", "children repeat the parent", "for two blocks"])
@pytest.mark.parametrize("skipped", [frozenset(), frozenset({120}), frozenset({119, 120})], ids=str)
@pytest.mark.parametrize("place", PLACES)
async def test_what_landed_on_either_side_of_a_split_is_met_and_what_did_not_is_proven_dead(place, skipped, missed):
    if place[0] in skipped or place in missed:
        place = (131, 3)
    dead, landed = await attempts(2)
    split = SplitChain(skipped, missed)
    split.landed[place] = [landed.hash]
    split.nonce = landed.nonce
    split.make()
    chain, lane = open_chain(split)
    proof, alive = await chain.prove_dead(lane, [dead, landed])
    assert isinstance(proof, Proof)
    assert (proof.cause, proof.evidence["by"]) == ("overtaken", "chunks")
    assert alive is None


async def test_a_chunk_of_a_new_shard_that_is_not_read_would_be_noticed():
    """The guard of the test above: hide one child's chunk, and the landed one looks dead."""
    dead, landed = await attempts(2)
    split = SplitChain()
    split.landed[(130, 3)] = [landed.hash]
    split.nonce = landed.nonce
    split.make()
    block = split.blocks[split.by_height[130]]
    block["chunks"] = [header for header in block["chunks"] if header["shard_id"] != 3]
    chain, lane = open_chain(split)
    assert all(await chain.prove_dead(lane, [dead, landed]))


async def test_a_header_that_was_collected_is_named_once_and_proves_nothing():
    dead, landed = await attempts(2)
    split = SplitChain()
    split.landed[(130, 3)] = [landed.hash]
    split.nonce = landed.nonce
    split.make()
    split.gone_below = 110
    chain, lane = open_chain(split)
    with structlog.testing.capture_logs() as logs:
        assert await chain.prove_dead(lane, [dead]) == [None]
        assert await chain.prove_dead(lane, [dead]) == [None]
    [said] = [log for log in logs if "archival" in log["event"]]
    assert split.by_height[109] in said["why"]
    assert said["attempts"] == [dead.hash]
    split.gone_below = 0
    [proof] = await chain.prove_dead(lane, [dead])
    assert isinstance(proof, Proof)
