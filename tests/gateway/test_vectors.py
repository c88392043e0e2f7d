"""The published vectors of execution-apis: bytes and their hashes, and the pool's objects field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rlp
from eth_utils import keccak

from tests.evm.machines import Anvil
from tests.gateway.senders import Sender
from tests.gateway.stage import Gateway, gateway
from tests.gateway.strict import Strict
from tests.waiting import until

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text())
CHAIN = int(VECTORS["chain_id"], 16)


def strict_of(anvil: Anvil) -> Strict:
    """Its count never moves in a test, so nothing lands."""
    strict = Strict(anvil, lag=(600.0, 600.0), delay=0.0)
    strict.chain_id = CHAIN
    return strict


def raw_of(shown: dict[str, Any]) -> str:
    """The bytes that a published object describes."""
    number = lambda name: int(shown[name], 16)  # noqa: E731
    text = lambda value: bytes.fromhex(value[2:]) if value else b""  # noqa: E731
    kind = number("type")
    listed = [[text(one["address"]), [text(key) for key in one["storageKeys"]]] for one in shown.get("accessList", ())]
    call = [number("gas"), text(shown["to"]), number("value"), text(shown["input"])]
    signed = [number("v"), number("r"), number("s")]
    if kind == 0:
        return "0x" + rlp.encode([number("nonce"), number("gasPrice"), *call, *signed]).hex()
    fees = [number("gasPrice")] if kind == 1 else [number("maxPriorityFeePerGas"), number("maxFeePerGas")]
    body = [number("chainId"), number("nonce"), *fees, *call, listed, *signed]
    return f"0x{kind:02x}" + rlp.encode(body).hex()


async def funded(gate: Gateway, anvil: Anvil, raw: str) -> str:
    sender = gate.node.upstream.read(raw).sender
    anvil.fund(sender, 10**21)
    return sender


async def test_published_bytes_have_their_published_hashes(make_anvil: Callable[..., Anvil]):
    anvil = make_anvil("--chain-id", str(CHAIN), "--base-fee", "0")
    with strict_of(anvil) as strict:
        async with gateway(strict, mode="async", lag_ms=1_000) as gate:
            for raw, hash in VECTORS["sends"].values():
                await funded(gate, anvil, raw)
                assert Sender.hash(raw) == hash
                assert await gate.send(raw) == hash


async def test_the_pool_shows_the_published_objects(make_anvil: Callable[..., Anvil]):
    """The first hangs at the node, the others wait behind it."""
    anvil, shown = make_anvil("--chain-id", str(CHAIN), "--base-fee", "0"), VECTORS["content"]
    raws = [raw_of(one) for one in shown.values()]
    assert ["0x" + keccak(bytes.fromhex(raw[2:])).hex() for raw in raws] == [one["hash"] for one in shown.values()]
    with strict_of(anvil) as strict:
        async with gateway(strict, mode="async", lag_ms=1_000) as gate:
            sender = await funded(gate, anvil, raws[0])
            strict.hang_next(1)
            assert await gate.send(raws[0]) == shown["0"]["hash"]
            await until(lambda: len(strict.log()) == 1, 30, what="the first at the node")
            for raw in raws[1:]:
                await gate.send(raw)
            assert await gate.ask("txpool_contentFrom", sender) == {"pending": shown, "queued": {}}
            whole = await gate.ask("txpool_content")
            assert whole == {"pending": {gate.node.upstream.checksummed(sender): shown}, "queued": {}}
            assert await gate.ask("txpool_contentFrom", "0x" + "0" * 40) == {"pending": {}, "queued": {}}
