"""Fee arithmetic: a replacement beats every rival by the minimum on both fees, reaches the market, respects the cap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.chains.evm.fees import FeeOracle, bump, capped, market_fees, price_for, raised, read_history
from txmanager.chains.evm.network import BY_CHAIN_ID, PRESETS, EvmNetwork, preset
from txmanager.chains.evm.transaction import Fees
from txmanager.core.errors import InvalidSettings
from txmanager.rpc.errors import BadAnswer, RpcError

GWEI = 10**9
wei = st.integers(0, 10**13)
caps = st.integers(1, 10**13)


@st.composite
def prices(draw: st.DrawFn) -> Fees:
    tip = draw(wei)
    return Fees(tip + draw(wei), tip)


@given(st.lists(prices(), min_size=1, max_size=5), prices(), caps, st.integers(10, 100))
def test_a_replacement_is_sufficient_or_there_is_none(previous, market, cap, percent):
    made = bump(previous, market, cap, percent)
    fee, tip = max(p.max_fee for p in previous), max(p.tip for p in previous)
    if made is None:
        assert max(raised(fee, percent), raised(tip, percent)) > cap
        return
    assert made.tip <= made.max_fee <= cap
    for old, new in ((fee, made.max_fee), (tip, made.tip)):
        assert new > old
        assert new * 100 >= old * (100 + percent)
    assert made.max_fee >= min(cap, market.max_fee)
    assert made.tip >= min(made.max_fee, market.tip)


@given(wei, wei)
def test_the_market_lies_between_floor_and_cap(base_fee, tip):
    network = EvmNetwork(min_tip=2 * GWEI, max_fee=300 * GWEI)
    made = market_fees(base_fee, tip, network)
    assert made.tip <= made.max_fee <= 300 * GWEI
    assert made.tip >= min(2 * GWEI, made.max_fee)
    assert made.max_fee == 300 * GWEI or made.max_fee >= 2 * base_fee + made.tip


@given(prices(), wei)
def test_a_gas_price_covers_base_fee_and_tip_and_not_much_more(fees, base_fee):
    made = price_for(Fees(2 * base_fee + fees.tip, fees.tip), base_fee, 0)
    assert made.max_fee == made.tip
    assert made.max_fee >= min(base_fee + fees.tip, 2 * base_fee + fees.tip)
    assert price_for(fees, base_fee, 2) == fees


def test_a_callers_limit_caps_both():
    assert capped(Fees(10, 5), 3) == Fees(3, 3)
    assert capped(Fees(10, 5), 7) == Fees(7, 5)
    assert capped(Fees(10, 5), None) == Fees(10, 5)


def test_history_is_read_without_the_tips_of_empty_blocks():
    told = {
        "baseFeePerGas": ["0x1", "0x2", "0x3", "0x64"],
        "gasUsedRatio": [0, 0.5, 1.0],
        "reward": [["0x0"], ["0x5"], ["0x7"]],
    }
    assert read_history(told) == (100, 7)
    assert read_history({"baseFeePerGas": ["0x1"], "gasUsedRatio": [], "reward": None}) == (1, 0)
    for broken in (None, {}, {"baseFeePerGas": []}, {"baseFeePerGas": ["x"]}):
        with pytest.raises(BadAnswer):
            read_history(broken)


async def test_a_node_without_fee_history_is_asked_for_its_gas_price():
    asked = []

    async def ask(method, params):
        asked.append(method)
        if method == "eth_feeHistory":
            raise RpcError({"code": -32601, "message": "the method does not exist"})
        return {"eth_gasPrice": "0x64", "eth_maxPriorityFeePerGas": "0xa"}[method]

    oracle = FeeOracle(ask, EvmNetwork(fees_fresh_s=0.0))
    assert await oracle.read() == (90, Fees(190, 10))
    await oracle.read()
    assert asked.count("eth_feeHistory") == 1


async def test_one_failure_of_fee_history_is_not_taken_for_its_absence():
    answers = iter([RpcError({"code": -32000, "message": "internal error"}), {"baseFeePerGas": ["0x64"]}])

    async def ask(method, params):
        if method == "eth_feeHistory":
            answer = next(answers)
            if isinstance(answer, RpcError):
                raise answer
            return answer
        raise RpcError({"code": -32601, "message": "the method does not exist"})

    oracle = FeeOracle(ask, EvmNetwork(fees_fresh_s=0.0))
    with pytest.raises(RpcError):
        await oracle.read()
    assert (await oracle.read())[0] == 100


def test_presets_have_what_their_chains_need():
    assert preset(None, 137).min_tip >= 25 * GWEI
    assert preset(None, 295).window == 1
    assert preset(None, 1).finality == "finalized"
    assert preset("base", 123) is PRESETS["base"]
    assert preset(None, 999_999) == EvmNetwork()
    assert set(BY_CHAIN_ID.values()) <= set(PRESETS)
    assert all(network.window <= 16 and network.bump_percent >= 12 for network in PRESETS.values())
    with pytest.raises(InvalidSettings, match="preset"):
        preset("solana", 1)
    for wrong in ({"finality": 0}, {"bump_percent": 9}, {"max_fee": 0}, {"min_tip": 2, "max_fee": 1}):
        with pytest.raises(InvalidSettings):
            EvmNetwork(**wrong)
