"""What is refused, in geth's words: each row of the contract through a real gateway."""

from __future__ import annotations

import pytest
import rlp

from tests.gateway.senders import GWEI, Sender
from tests.gateway.stage import RpcError, gateway
from tests.waiting import until

LEGACY = {"gasPrice": 10 * GWEI}


def blob() -> str:
    return "0x03" + rlp.encode([b""] * 14).hex()


def unprotected(sender: Sender, nonce: int = 0) -> str:
    """Signed without a chain id: eth-account leaves it out when none is given."""
    told = {"nonce": nonce, "gas": 21_000, "to": "0x" + "11" * 20, "value": 1, **LEGACY}
    return sender.account.sign_transaction(told).raw_transaction.to_0x_hex()


REFUSED = {
    "intrinsic": ({"gas": 20_999}, "intrinsic gas too low: gas 20999, minimum needed 21000"),
    "data costs": ({"data": b"\1\0", "gas": 21_019}, "intrinsic gas too low: gas 21019, minimum needed 21020"),
    "tip": (
        {"maxFeePerGas": 5, "maxPriorityFeePerGas": 6},
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: 6, maxFeePerGas: 5",
    ),
    "chain": ({"chainId": 1}, "invalid sender: invalid chain id for signer: have 1 want 31337"),
    "legacy chain": ({"chainId": 5, **LEGACY}, "invalid sender: invalid chain id for signer: have 5 want 31337"),
    "max nonce": ({"nonce": 2**64 - 1}, "nonce has max value"),
    "size": ({"data": b"\1" * 131_072, "gas": 3_000_000}, "oversized data: transaction size 131"),
    "init code": (
        {"to": b"", "data": b"\1" * 49_153, "gas": 3_000_000},
        "max initcode size exceeded: code size 49153, limit 49152",
    ),
    "funds": (
        {"value": 10**30},
        "insufficient funds for gas * price + value: balance 1000000000000000000000, "
        "tx cost 1000000000000000210000000000000, overshot 999999999000000210000000000000",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_transaction_that_no_node_takes_is_refused_in_geths_words(name, gate, anvil):
    fields, words = REFUSED[name]
    sender = Sender(anvil)
    with pytest.raises(RpcError) as told:
        await gate.send(sender.sign(**{"nonce": 0, **fields}))
    assert told.value.code == -32000
    assert told.value.message.startswith(words), told.value.message
    assert await gate.node.mempool.base(sender.address) is None, "nothing is left behind"


async def test_gas_above_the_block_is_refused_once_a_block_was_seen(gate, anvil):
    sender = Sender(anvil)
    await gate.count(sender.address)
    with pytest.raises(RpcError, match=r"^exceeds block gas limit$"):
        await gate.send(sender.sign(0, gas=10**9))


@pytest.mark.parametrize("raw", ["", "0x", "0x1", "00", "0xzz", "0x02", "0xc0", "0x" + "ff" * 200, 7, None, [], {}])
async def test_what_is_no_transaction_is_a_wrong_parameter(raw, gate):
    with pytest.raises(RpcError) as told:
        await gate.ask("eth_sendRawTransaction", raw)
    assert told.value.code == -32602, told.value.message


async def test_types_that_are_not_taken_and_bytes_of_no_chain(gate, anvil):
    with pytest.raises(RpcError, match=r"^transaction type not supported$"):
        await gate.send(blob())
    sender = Sender(anvil)
    with pytest.raises(RpcError, match=r"^only replay-protected \(EIP-155\) transactions allowed over RPC$"):
        await gate.send(unprotected(sender))
    async with gateway(anvil, allow_unprotected=True) as open_gate:
        raw = unprotected(sender)
        assert await open_gate.send(raw) == sender.hash(raw)


async def test_prices_below_the_floor_and_nonces_that_are_used(anvil):
    sender = Sender(anvil)
    async with gateway(anvil, price_floor=2 * GWEI) as gate:
        words = r"^transaction gas price below minimum: gas tip cap 1999999999, minimum needed 2000000000$"
        with pytest.raises(RpcError, match=words):
            await gate.send(sender.sign(0, price=2 * GWEI - 1))
        hash = await gate.send(sender.sign(0))

        async def used() -> bool:
            return (await gate.status(hash))["state"] in ("landed", "ended")

        await until(used, 30.0, what="seen in a block")  # before that it is a replacement
        with pytest.raises(RpcError, match=r"^nonce too low: next nonce 1, tx nonce 0$"):
            await gate.send(sender.sign(0, value=5))


async def test_a_full_mempool_and_a_full_account(anvil):
    cheap, other, dear = Sender(anvil), Sender(anvil), Sender(anvil)
    async with gateway(anvil, capacity=2, high_watermark=1.0, per_sender=2) as gate:
        for nonce in (1, 2):
            await gate.send(cheap.sign(nonce))
        with pytest.raises(RpcError, match=r"^account limit exceeded$"):
            await gate.send(cheap.sign(3))
        with pytest.raises(RpcError, match=r"^transaction underpriced$"):
            await gate.send(other.sign(1))
        hash = await gate.send(dear.sign(1, price=20 * GWEI))
        assert (await gate.status(hash))["state"] == "gapped"
        assert int((await gate.ask("txpool_status"))["queued"], 16) == 2
    async with gateway(anvil, capacity=10, high_watermark=0.1) as gate:
        first = Sender(anvil)
        await gate.send(first.sign(1))
        await gate.send(first.sign(2))
        with pytest.raises(RpcError, match=r"^transaction underpriced$"):
            await gate.send(Sender(anvil).sign(1))


async def test_bytes_are_counted_beside_entries(anvil):
    """Transactions of 100 kB: the bytes run out long before the places do."""
    async with gateway(anvil, kept_bytes=1 << 20) as gate:
        told = []
        for _ in range(14):
            sender = Sender(anvil)
            try:
                await gate.send(sender.sign(1, data=b"\0" * 100_000, gas=2_000_000))
                told.append("taken")
            except RpcError as error:
                told.append(error.message)
        assert told.count("taken") < 14
        assert set(told) <= {"taken", "txpool is full", "account limit exceeded", "transaction underpriced"}, told
