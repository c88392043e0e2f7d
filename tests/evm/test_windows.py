"""A window that grows on a real geth: a whole queue goes into a few blocks, and nothing is lost or paid twice when the
pool forgets it, the node dies with it, or the chain goes back."""

from __future__ import annotations

import pytest

from tests.evm.stage import NETWORK, Stage, new_signer
from tests.waiting import until
from txmanager.chains.evm.network import EvmNetwork
from txmanager.core.decide import Policy
from txmanager.core.models import Record

EACH_SECOND = ("--dev.period", "1")
MANY = 150
KEYS = [f"k{n}" for n in range(MANY)]
GROWING = Policy(window=16, max_window=1_024, max_inflight=2_048, include_within_ms=500, replace_after_ms=3_600_000)


async def queued(stage: Stage) -> None:
    """All wait in the queue when the worker starts."""
    await stage.start()
    await stage.crash()
    await stage.submit(*(stage.transfer(key) for key in KEYS))
    await stage.start()


def in_order(stage: Stage, records: list[Record]) -> None:
    nonces = [r.outcome.nonce for r in records if r.outcome is not None]
    assert nonces == list(range(MANY)), "acceptance, nonces and effects are in one order"
    assert stage.received() == MANY


async def test_a_whole_queue_is_in_the_pool_at_once_and_mined_in_a_few_blocks(make_geth):
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=GROWING)
    try:
        await queued(stage)
        await until(lambda: sum(geth.pool()) > 32, 30.0, what="more than twice the first window is in the pool")
        records = await stage.until_done(*KEYS, timeout=90.0)
        in_order(stage, records)
        assert all(len(record.attempts) == 1 for record in records)
    finally:
        await stage.crash()


@pytest.mark.parametrize("journal", [True, False])
async def test_a_node_killed_with_a_full_window_is_filled_again(make_geth, journal):
    geth = make_geth(*EACH_SECOND, journal=journal)
    stage = Stage(geth, [new_signer()], policy=GROWING)
    try:
        await queued(stage)
        for _ in range(2):
            await until(lambda: sum(geth.pool()) > 16, 30.0, what="a grown window waits in the pool")
            geth.kill()
            geth.start()
            if geth.count(stage.signer.address) + 20 > MANY:
                break
        in_order(stage, await stage.until_done(*KEYS, timeout=120.0))
    finally:
        await stage.crash()


async def test_a_worker_killed_with_a_full_window_is_followed_by_one_that_ends_it(make_geth):
    geth = make_geth(*EACH_SECOND)
    stage = Stage(geth, [new_signer()], policy=GROWING)
    try:
        await queued(stage)
        await until(lambda: sum(geth.pool()) > 16, 30.0, what="a grown window waits in the pool")
        await stage.crash()
        await stage.start()
        in_order(stage, await stage.until_done(*KEYS, timeout=90.0))
    finally:
        await stage.crash()


async def test_a_chain_that_goes_back_with_a_full_window_gets_the_same_bytes_again(make_geth):
    geth = make_geth(*EACH_SECOND)
    deep = EvmNetwork(finality=40, max_fee=NETWORK.max_fee, fees_fresh_s=0.0)
    stage = Stage(geth, [new_signer()], policy=GROWING, network=deep)
    try:
        base = geth.number("eth_blockNumber")
        await queued(stage)
        await until(lambda: geth.count(stage.signer.address) > 40, 60.0, what="some are mined")
        geth.set_head(base)
        await until(lambda: geth.count(stage.signer.address) == MANY, 90.0, what="all are mined")
        attempts = [(await stage.record(key)).attempts for key in KEYS]
        assert [[a.nonce for a in some] for some in attempts] == [[n] for n in range(MANY)]
        assert stage.received() == MANY
    finally:
        await stage.crash()


async def test_a_pool_too_small_for_a_grown_window_loses_nothing_and_keeps_the_order(make_geth):
    small = ("--txpool.globalslots", "24", "--txpool.globalqueue", "2", "--txpool.accountslots", "1")
    geth = make_geth(*EACH_SECOND, "--txpool.nolocals", *small)
    stage = Stage(geth, [new_signer()], policy=GROWING)
    try:
        await queued(stage)
        in_order(stage, await stage.until_done(*KEYS, timeout=120.0))
    finally:
        await stage.crash()
