"""A cheap payload with dear gas: what an intent may cost counts fees, from the first check to the last replacement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.near_stage import Attacked, token_lines
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.evm.stage import Stage as EvmStage
from tests.evm.stage import new_signer
from tests.runtime.stage import Stage
from tests.waiting import until
from txmanager.chains.evm.network import GWEI
from txmanager.chains.near import NearPolicy
from txmanager.core.models import Record
from txmanager.core.states import LaneState, Status

TRANSFER_GAS = 21_000
NEAR_FEE = 10**21
"""More than the gas of a transfer is bought for."""


def spent(record: Record, value: int = 1) -> list[int]:
    """What each attempt may cost at worst."""
    return [value + int(a.terms["gas"]) * int(a.terms["max_fee_per_gas"]) for a in record.attempts]


async def test_no_replacement_passes_max_cost(make_anvil: Any) -> None:
    """Stuck on purpose: each bump costs more, up to the limit and not above; the lane says so and goes on."""
    anvil = make_anvil("--no-mining")
    async with EvmStage(anvil, [new_signer()]) as stage:
        limit = 1 + TRANSFER_GAS * 4 * GWEI
        await stage.submit(stage.transfer("a", limits={"max_cost": str(limit)}))
        assert stage.worker is not None
        priced_out = stage.worker.metrics.priced_out.labels(stage.lane_id)._value
        await until(lambda: priced_out.get() > 0, 30.0, what="the limit is reached, and said")
        record = await stage.record("a")
        assert record.status is Status.INFLIGHT
        assert len(record.attempts) >= 2, "it was replaced while that was within the limit"
        assert max(spent(record)) <= limit
        anvil.rpc("evm_setAutomine", True)
        anvil.rpc("evm_mine")
        await stage.until_done("a")


async def test_price_gives_way_to_max_cost_at_the_first_signature(anvil: Any) -> None:
    async with EvmStage(anvil, [new_signer()]) as stage:
        limit = 1 + TRANSFER_GAS * (GWEI + GWEI // 2)
        await stage.submit(stage.transfer("a", limits={"max_cost": str(limit)}))
        [record] = await stage.until_done("a")
        assert max(spent(record)) <= limit


@pytest.mark.parametrize("limit", ["1", "21000", "not a number"])
async def test_intent_that_cannot_be_paid_within_max_cost_fails_alone(anvil: Any, limit: str) -> None:
    async with EvmStage(anvil, [new_signer()]) as stage:
        await stage.submit(stage.transfer("a", limits={"max_cost": limit}), stage.transfer("b"))
        record = await stage.until_status("a", Status.FAILED)
        assert record.attempts == ()
        assert record.outcome is not None
        assert (record.outcome.error or {})["code"] == "max_cost"
        await stage.until_done("b")
        assert (await stage.lane()).state is LaneState.ACTIVE


async def test_gas_of_a_near_call_counts_against_max_cost(lanes: Stage) -> None:
    """300 Tgas for a deposit of nothing: 0.3 NEAR are taken to buy them."""
    await lanes.start()
    call = {"contract_id": lanes.receiver["account_id"], "method_name": "x", "gas": str(300 * 10**12), "deposit": "0"}
    dear = lanes.transfer("dear", limits={"max_cost": str(10**23)})
    dear = type(dear)(dear.id, "near.function_call", call, dear.fingerprint, dear.partition_key, limits=dear.limits)
    cheap = lanes.transfer("cheap", 5, limits={"max_cost": str(NEAR_FEE + 5)})
    ids = await lanes.submit(dear, cheap)
    [refused, paid] = await lanes.finals(ids)
    assert paid.status is Status.DONE
    assert (refused.status, refused.attempts) == (Status.FAILED, ())
    assert "max_cost" in str((refused.outcome.error or {}) if refused.outcome else "")


async def test_pool_holds_what_came_without_a_limit_to_its_own(lanes: Stage) -> None:
    """What the monitor or a process of the operator submits has no token."""
    await lanes.start(near=NearPolicy(max_cost=NEAR_FEE + 5))
    ids = await lanes.submit(lanes.transfer("dear", 6 * NEAR_FEE), lanes.transfer("cheap", 5))
    refused, paid = await lanes.finals(ids)
    assert (refused.status, paid.status) == (Status.FAILED, Status.DONE)
    assert lanes.amounts() == [5]


@pytest.fixture(scope="module")
def limited(redis7: HasUrl, attacked_devnet: Devnet) -> Iterator[Attacked]:
    """The programs as they run: a pool with a limit, a token with a lower one, and sealed intents."""
    tokens = token_lines("thrifty", ["submit", "read"], {"max_cost": str(2 * NEAR_FEE)})
    with Attacked(redis7.url, attacked_devnet, f'max_cost = "{9 * NEAR_FEE}"', tokens) as stage:
        seal = stage.folder / "seal"
        seal.write_text("s" * 40)
        told = stage.config.read_text()
        line = f'seal = [{{ file = "{seal}" }}]\nseal_mode = "require"'
        stage.config.write_text(told.replace("[ledger]", f"[ledger]\n{line}", 1))
        yield stage.start()


@pytest.mark.parametrize(("by", "cost", "status"), [("thrifty", 3, 403), ("all", 12, 422)], ids=["token", "pool"])
def test_api_refuses_what_costs_more_than_token_or_pool_allow(
    limited: Attacked, key: str, by: str, cost: int, status: int
) -> None:
    payload = {"receiver_id": "dev1.near", "amount": str(cost * NEAR_FEE)}
    refused = limited.post_intent("near.transfer", payload, key=key, by=by)
    assert refused.status_code == status, refused.text
    assert refused.json()["field"] == "max_cost"
    assert limited.get(f"/v1/intents/{key}?pool=main", by=by).status_code == 404, "nothing was accepted"


def test_accepted_intent_is_done_within_its_limits_and_under_its_seal(limited: Attacked, key: str) -> None:
    payload = {"receiver_id": "dev1.near", "amount": "1"}
    done = limited.post_intent("near.transfer", payload, key=key, by="thrifty", wait=20)
    assert done.json()["status"] == "done", done.text
