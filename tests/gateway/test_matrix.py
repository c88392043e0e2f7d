"""Every client before every node: a burst of 20, a replacement, a gap that fills, and refusals by the client's class.

All clients of a node share one start of it, and one gateway each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest
from web3 import AsyncWeb3
from web3.exceptions import Web3RPCError

from tests.evm.geth import Geth
from tests.evm.machines import Anvil, Hardhat, Machine
from tests.gateway import sdks
from tests.gateway.senders import CHAIN_ID, GWEI, TO, Sender
from tests.gateway.stage import Gateway, gateway
from tests.gateway.strict import Strict, check
from tests.gateway.test_clients import TABLE, key
from tests.waiting import until

REFUSED = ("nonce too low", "already known", "replacement", "funds", "intrinsic")
WORDS = {
    "nonce too low": "nonce too low: next nonce 23, tx nonce 0",
    "already known": "already known",
    "replacement": "replacement transaction underpriced",
    "funds": "insufficient funds for gas * price + value: balance ",
    "intrinsic": "intrinsic gas too low: gas 20000, minimum needed 21000",
}
Flow = Callable[[Gateway, Sender, int], Awaitable[list[str]]]
"""What the client does; answers the hashes of its burst."""


@pytest.fixture(scope="module", params=["anvil", "hardhat", "geth", "strict"])
def node(request: pytest.FixtureRequest, anvil: Anvil) -> Iterator[Machine]:
    with ExitStack() as running:
        if request.param == "hardhat":
            hardhat = running.enter_context(Hardhat())
            hardhat.rpc("evm_setAutomine", True)
            yield hardhat
        elif request.param == "geth":
            yield running.enter_context(Geth("--dev.period", "1"))
        elif request.param == "strict":
            yield running.enter_context(Strict(anvil, lag=(0.2, 1.0)))
        else:
            yield anvil


@asynccontextmanager
async def blocks(node: Machine) -> AsyncIterator[None]:
    """A chain that goes on: ethers looks for a receipt at each new block, and only then."""

    async def mine() -> None:
        while isinstance(node, Strict):
            await asyncio.to_thread(node.anvil.rpc, "evm_mine")
            await asyncio.sleep(0.3)

    mining = asyncio.create_task(mine())
    try:
        yield
    finally:
        mining.cancel()
        await asyncio.gather(mining, return_exceptions=True)


# -- clients


def check_flow(told: dict[str, Any]) -> None:
    assert len(set(told["burst"])) == 20
    assert told["landed"] == [1] * 23
    assert (told["before"], told["after"]) == (20, 23), "pending is the contiguous run"
    assert told["replaced"]
    assert told["shown"] is None, "what waits is shown with null block fields"


def javascript(library: str, column: int) -> Flow:
    async def flow(gate: Gateway, sender: Sender, chain_id: int) -> list[str]:
        told = await asyncio.to_thread(sdks.run, library, "flow", gate.url, key(sender), chain_id=chain_id)
        check_flow(told)
        refused = await asyncio.to_thread(sdks.run, library, "refusals", gate.url, key(sender), chain_id=chain_id)
        assert {name: one["class"] for name, one in refused.items()} == {name: TABLE[name][column] for name in REFUSED}
        for name, one in refused.items():
            assert WORDS[name] in one["words"]
        burst: list[str] = told["burst"]
        return burst

    return flow


async def web3_py(gate: Gateway, sender: Sender, chain_id: int) -> list[str]:
    web3 = AsyncWeb3(AsyncWeb3.AsyncHTTPProvider(gate.url))

    async def send(nonce: int, **fields: Any) -> Any:
        return await web3.eth.send_raw_transaction(sender.sign(nonce, chainId=chain_id, **fields))

    try:
        hashes = await asyncio.gather(*(send(nonce) for nonce in range(20)))
        receipts = [await web3.eth.wait_for_transaction_receipt(hash, 60, 0.1) for hash in hashes]
        for nonce in (21, 22):
            await send(nonce)
        dear = await send(22, price=20 * GWEI)
        where = web3.to_checksum_address(sender.address)
        assert await web3.eth.get_transaction_count(where, "pending") == 20
        assert (await web3.eth.get_transaction(dear))["blockNumber"] is None
        await send(20)
        receipts.append(await web3.eth.wait_for_transaction_receipt(dear, 60, 0.1))
        assert [receipt["status"] for receipt in receipts] == [1] * 21
        assert await web3.eth.get_transaction_count(where, "pending") == 23
        await send(30)
        for name, nonce, fields in refusals():
            with pytest.raises(Web3RPCError) as found:  # its one class for all of them
                await send(nonce, **fields)
            assert WORDS[name] in str(found.value)
    finally:
        await web3.provider.disconnect()
    return ["0x" + bytes(hash).hex() for hash in hashes]


def refusals() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield "nonce too low", 0, {"value": 2}
    yield "already known", 30, {}
    yield "replacement", 30, {"value": 2}
    yield "funds", 31, {"value": 10**60}
    yield "intrinsic", 31, {"gas": 20_000}


async def cast(gate: Gateway, sender: Sender, chain_id: int) -> list[str]:
    async def ask(*arguments: str) -> Any:
        return await asyncio.to_thread(sdks.cast, *arguments, "--rpc-url", gate.url)

    async def send(nonce: int, gwei: int = 10, value: int = 1, gas: int = 21_000) -> Any:
        fees = ["--gas-price", f"{gwei}gwei", "--priority-gas-price", "1gwei", "--gas-limit", str(gas)]
        signed = ["--private-key", key(sender), "--nonce", str(nonce), "--chain", str(chain_id), "--value", str(value)]
        return await ask("send", TO, *signed, *fees, "--async")

    async def landed(hash: str) -> bool:
        told = await ask("receipt", hash, "--json")  # it does not wait for a node that shows it late
        return told.returncode == 0 and json.loads(told.stdout)["status"] == "0x1"

    async def count() -> int:
        return int((await ask("nonce", sender.address, "--block", "pending")).stdout)

    done = await asyncio.gather(*(send(nonce) for nonce in range(20)))
    hashes = [one.stdout.strip() for one in done]
    for hash in hashes:
        await until(lambda hash=hash: landed(hash), 60, every=0.2, what="a receipt")
    for nonce, gwei in ((21, 10), (22, 10), (22, 20)):
        told = await send(nonce, gwei)
        assert told.returncode == 0, told.stderr
    dear = told.stdout.strip()
    assert await count() == 20
    assert json.loads((await ask("tx", dear, "--json")).stdout)["blockNumber"] is None
    await send(20)
    await until(lambda: landed(dear), 60, every=0.2, what="the receipt of the replacement")
    assert await count() == 23
    await send(30)
    for name, nonce, fields in refusals():
        told = await send(nonce, **fields)
        assert told.returncode == 1  # it has no classes: one exit code, and the words
        assert WORDS[name] in told.stderr, told.stderr
    return hashes


CLIENTS: dict[str, Flow] = {
    "ethers": javascript("ethers", 1),
    "viem": javascript("viem", 2),
    "web3.py": web3_py,
    "cast": cast,
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_bursts_replaces_fills_a_gap_and_is_told_errors(client: str, node: Machine):
    sender = Sender()
    (node.anvil if isinstance(node, Strict) else node).fund(sender.address, 10**21)
    options = {"lag_ms": 1_500} if isinstance(node, Strict) else {}
    before = len(node.log()) if isinstance(node, Strict) else 0
    async with gateway(node, **options) as gate, blocks(node):
        burst = await CLIENTS[client](gate, sender, getattr(node, "chain_id", CHAIN_ID))
    if isinstance(node, Strict):
        assert check(node.log()[before:], burst).taken[sender.address] == list(range(23))


async def test_cast_finds_its_own_nonce(anvil: Anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        send = ["send", "--rpc-url", gate.url, "--private-key", key(sender), TO, "--value", "1", "--json"]
        for _ in range(2):
            done = await asyncio.to_thread(sdks.cast, *send)
            assert json.loads(done.stdout)["status"] == "0x1", done.stderr
        raw = sender.sign(2)
        told = await asyncio.to_thread(sdks.cast, "publish", "--rpc-url", gate.url, "--async", raw)
        assert told.stdout.strip().strip('"') == sender.hash(raw)
        await until(lambda: anvil.count(sender.address) == 3, 30)
