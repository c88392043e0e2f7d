"""What the monitor and the lanes' patience can be told, and what of it contradicts itself."""

from __future__ import annotations

import pytest

from txmanager.core.errors import InvalidSettings
from txmanager.core.purses import Marks
from txmanager.ledger.memory import MemoryLedger
from txmanager.settings import load
from txmanager.wiring import build_purses, build_services, build_watched

EVM = """
[networks.chain]
chain = "evm"
chain_id = 31337
rpc = [{ url = "http://127.0.0.1:1" }]

[pools.paid]
network = "chain"
keys = ["env:SOME_KEY"]

[pools.paid.policy]
bump_after_s = 300
bump_percent = 20
cancel_after_s = 1800
fill_after_s = 5

[pools.treasury]
network = "chain"
policy = { max_deposit = "100", max_cost = "100000", budget = [{ network = "chain", amount = "10 gwei", per = "1d" }] }

[monitor]
stuck_after_s = 30
overdue_after_s = 60
"""
TOP_UP = '[monitor.networks.chain]\nlow = "5"\nhigh = "50 wei"\ntreasury = "treasury"\n'
NEAR = """
[networks.testnet]
chain = "near"
rpc = [{ url = "http://127.0.0.1:1" }]
[pools.main]
network = "testnet"
account = "a.testnet"
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str):
        path = tmp_path / "config.toml"
        path.write_text(text)
        return path

    return write


async def test_thresholds_reach_the_lane_and_the_monitor(write, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "0x" + "11" * 32)
    settings = load(write(EVM + TOP_UP), {})
    services, chains = build_services(settings)
    [service] = services.values()
    policy = service.policy
    assert (policy.replace_after_ms, policy.cancel_after_ms, policy.fill_after_ms) == (300_000, 1_800_000, 5_000)
    assert set(chains[0]._bumps.values()) == {20}
    watched, close = build_watched(settings)
    limits = watched["evm:31337"].limits
    assert (limits.stuck_after_ms, limits.overdue_after_ms) == (30_000, 60_000)
    await close()
    purses, close = build_purses(settings, MemoryLedger())
    cared = purses["evm:31337"]
    assert cared.marks == {"account": Marks(5, 50)}
    assert (cared.top_ups.pool, cared.top_ups.every_ms) == ("treasury", 3_600_000)
    await close()
    for chain in chains:
        await chain.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EVM.replace("overdue_after_s = 60", "overdue_after_s = 29"), "monitor.overdue_after_s: must be at least"),
        (EVM + "[monitor.networks.other]\n", "monitor.networks.other: names no network that is monitored"),
        (EVM + '[monitor.networks.chain]\nlow = "5 NEAR"\n', "monitor.networks.chain: NEAR is not one of ETH"),
        (EVM + TOP_UP.replace('low = "5"', ""), "monitor.networks.chain.low: is needed with high"),
        (EVM + TOP_UP.replace('treasury = "treasury"', ""), "monitor.networks.chain.treasury: is needed with high"),
        (EVM + TOP_UP.replace('high = "50 wei"', ""), "monitor.networks.chain.high: is needed with treasury"),
        (EVM + TOP_UP.replace('"treasury"', '"gone"'), "monitor.networks.chain.treasury: 'gone' is no pool"),
        (EVM + TOP_UP.replace('"50 wei"', '"5"'), "monitor.networks.chain.high: must be more than low"),
        (EVM + TOP_UP + "every_s = 604801\n", "monitor.networks.chain.every_s: must not exceed ledger.retention_s"),
        (EVM + TOP_UP + 'gas_key = { low = "1" }\n', "monitor.networks.chain.gas_key: EVM has no such purse"),
        (EVM + TOP_UP.replace('"treasury"', '"paid"'), "pools.paid.policy.budget: is needed: it caps what top-ups"),
        (
            NEAR + '[monitor.networks.testnet]\nlow = "1 NEAR"\nallowance = { low = "1 NEAR", high = "2 NEAR" }\n',
            "monitor.networks.testnet.allowance.high: unknown key",
        ),
        (EVM + "period_s = 0\n", "monitor.period_s: "),
        (EVM.replace("bump_percent = 20", "bump_percent = 9"), "pools.paid.policy.bump_percent: "),
        (NEAR + "policy = { cancel_after_s = 5 }", "pools.main.policy.cancel_after_s: unknown key"),
    ],
)
def test_a_contradiction_names_its_field(write, text, said):
    with pytest.raises(InvalidSettings) as caught:
        load(write(text), {})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ('low_balance = "5"', "low_balance is low now"),
        ('top_up = "5"\ntop_up_pool = "treasury"', "top_up is high now, top_up_pool is treasury now"),
        ("top_up_every_s = 60", "top_up_every_s is every_s now"),
    ],
)
def test_a_setting_of_an_older_release_is_refused_with_its_new_name(write, old, said):
    with pytest.raises(InvalidSettings) as caught:
        load(write(f"{EVM}[monitor.networks.chain]\n{old}\n"), {})
    assert caught.value.field == "monitor.networks.chain"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TOP_UP.replace("50 wei", "101"), "monitor.networks.chain.treasury: pool 'treasury' could not pay: "),
        (TOP_UP.replace("50 wei", "20 gwei"), "monitor.networks.chain.treasury: pool 'treasury' could not pay: "),
    ],
)
def test_what_a_treasury_could_never_pay_is_said_at_the_start(write, text, said):
    with pytest.raises(InvalidSettings) as caught:
        build_purses(load(write(EVM + text), {}), MemoryLedger())
    assert str(caught.value).startswith(said)


def test_a_budget_below_one_top_up_is_said_at_the_start(write):
    text = EVM.replace('max_deposit = "100", max_cost = "100000"', 'max_cost = "20000000000"')
    with pytest.raises(InvalidSettings, match="one top-up may cost more than the whole budget pool:treasury"):
        build_purses(load(write(text + TOP_UP), {}), MemoryLedger())


def test_an_evm_treasury_without_max_cost_is_refused_because_nobody_knows_its_worst_case(write):
    text = EVM.replace(', max_cost = "100000"', "")
    with pytest.raises(InvalidSettings, match="could not pay: gas: is needed, or a max_cost"):
        build_purses(load(write(text + TOP_UP), {}), MemoryLedger())
