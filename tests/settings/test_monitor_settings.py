"""What the monitor and the lanes' patience can be told, and what of it contradicts itself."""

from __future__ import annotations

import pytest

from txmanager.core.errors import InvalidSettings
from txmanager.settings import load
from txmanager.wiring import build_services, build_watched

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
policy = { max_deposit = "100" }

[monitor]
stuck_after_s = 30
overdue_after_s = 60
"""
TOP_UP = '[monitor.networks.chain]\nlow_balance = "5"\ntop_up = "50"\ntop_up_pool = "treasury"\n'
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
    watched, close = build_watched(settings, None)
    limits = watched["evm:31337"].limits
    assert (limits.stuck_after_ms, limits.overdue_after_ms, limits.low_balance) == (30_000, 60_000, 5)
    top_ups = watched["evm:31337"].top_ups
    assert (top_ups.pool, top_ups.amount, top_ups.every_ms) == ("treasury", 50, 3_600_000)
    await close()
    for chain in chains:
        await chain.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EVM.replace("overdue_after_s = 60", "overdue_after_s = 29"), "monitor.overdue_after_s: must be at least"),
        (EVM + "[monitor.networks.other]\n", "monitor.networks.other: names no network that is monitored"),
        (
            EVM + TOP_UP.replace("chain]", "testnet]") + NEAR,
            "monitor.networks.testnet: names no network that",
        ),
        (EVM + '[monitor.networks.chain]\ntop_up = "5"\n', "monitor.networks.chain: a top-up needs all of low_balance"),
        (EVM + TOP_UP.replace('"treasury"', '"gone"'), "monitor.networks.chain.top_up_pool: 'gone' is no pool"),
        (EVM + TOP_UP.replace('"50"', '"101"'), "monitor.networks.chain.top_up: is more than max_deposit"),
        (EVM + "period_s = 0\n", "monitor.period_s: "),
        (EVM.replace("bump_percent = 20", "bump_percent = 9"), "pools.paid.policy.bump_percent: "),
        (NEAR + "policy = { cancel_after_s = 5 }", "pools.main.policy.cancel_after_s: unknown key"),
    ],
)
def test_a_contradiction_names_its_field(write, text, said):
    with pytest.raises(InvalidSettings) as caught:
        load(write(text), {})
    assert str(caught.value).startswith(said)
