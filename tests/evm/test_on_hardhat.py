"""The stricter node: it refuses replacements below 10 % of either fee, and keeps what the base fee left behind."""

from __future__ import annotations

import pytest

from tests.evm.machines import Hardhat
from tests.evm.stage import CHAIN_ID, Stage, new_signer
from tests.waiting import until
from txmanager.chains.evm.fees import bump
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.core.models import intent_id
from txmanager.core.states import Status
from txmanager.signing.evm import EvmSigner

GWEI = 10**9


def known(node: Hardhat, hash: str) -> bool:
    return node.rpc("eth_getTransactionByHash", hash) is not None


def send(node: Hardhat, signer: EvmSigner, nonce: int, fees: Fees) -> None:
    signed = sign_any(CHAIN_ID, nonce, fees, Body(b"\x22" * 20, 0, b"", 21_000), signer)
    node.rpc("eth_sendRawTransaction", "0x" + signed.raw.hex())


def test_our_bump_is_the_least_this_node_takes(hardhat):
    """10 % exactly on both is taken by it; less on either is not: ours, 12 %, has room and covers rounding."""
    signer, first = new_signer(), Fees(30 * GWEI + 7, 3 * GWEI + 7)
    hardhat.fund(signer.address)
    send(hardhat, signer, 0, first)
    for cheap in (
        Fees(first.max_fee * 2, first.tip * 109 // 100),
        Fees(first.max_fee * 109 // 100, first.tip * 2),
    ):
        with pytest.raises(RuntimeError, match=r"[Rr]eplacement transaction underpriced"):
            send(hardhat, signer, 0, cheap)
    second = bump([first], Fees(0, 0), 10**15, 12)
    assert second is not None
    send(hardhat, signer, 0, second)


async def test_stuck_by_the_base_fee_is_bumped_out(hardhat):
    async with Stage(hardhat, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a"), stage.transfer("b"))
        [first] = (await stage.until_attempts("a", 1)).attempts
        await until(lambda: known(hardhat, first.hash), 10.0)
        hardhat.rpc("hardhat_setNextBlockBaseFeePerGas", hex(20 * int(first.terms["max_fee_per_gas"])))
        hardhat.rpc("evm_mine")
        assert hardhat.count(stage.signer.address) == 0

        async def mined() -> bool:
            hardhat.rpc("evm_mine")
            records = [await stage.record(key) for key in ("a", "b")]
            return all(r.status is Status.DONE for r in records)

        await until(mined, 30.0, every=0.3)
        record = await stage.record("a")
        assert record.outcome.tx_hash != first.hash
        assert first.hash in {a.hash for a in record.attempts}
        assert stage.received() == 2


async def test_stuck_by_full_blocks_is_bumped_out(hardhat):
    """Blocks of two transfers, always filled by others who tip more."""
    rich = [new_signer(), new_signer()]
    for other in rich:
        hardhat.fund(other.address)
    nonces = [0, 0]
    hardhat.rpc("evm_setBlockGasLimit", hex(42_000))

    def fill() -> None:
        for index, other in enumerate(rich):
            send(hardhat, other, nonces[index], Fees(100 * GWEI, 2 * GWEI))
            nonces[index] += 1
        hardhat.rpc("evm_mine")

    async with Stage(hardhat, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a"))
        [first] = (await stage.until_attempts("a", 1)).attempts
        await until(lambda: known(hardhat, first.hash), 10.0)

        async def mined() -> bool:
            fill()
            return (await stage.record("a")).status is Status.DONE

        await until(mined, 30.0, every=0.3)
        record = await stage.record("a")
        assert len(record.attempts) >= 2
        assert record.outcome.tx_hash in {a.hash for a in record.attempts[1:]}


async def test_a_cancel_replaces_what_is_stuck_here_too(hardhat):
    async with Stage(hardhat, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a", 5))
        [first] = (await stage.until_attempts("a", 1)).attempts
        await until(lambda: known(hardhat, first.hash), 10.0)
        await stage.manager.cancel(intent_id("a", "p"))
        record = await stage.until_attempts("a", 2)
        await until(lambda: known(hardhat, record.attempts[-1].hash), 10.0)
        hardhat.rpc("evm_mine")
        assert (await stage.until_status("a", Status.CANCELLED, Status.DONE)).status is Status.CANCELLED
        assert stage.received() == 0
