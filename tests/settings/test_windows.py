"""How wide an EVM lane's window is, by what the configuration says."""

from __future__ import annotations

import pytest

from tests.settings.test_load import EVM_POOL
from txmanager.chains.evm.family import lane_policy
from txmanager.settings import load


@pytest.mark.parametrize(
    ("told", "window", "most", "inflight"),
    [
        ("", 16, 1_024, 2_048),
        ("max_window = 64", 16, 64, 128),
        ("max_window = 8", 8, 8, 128),
        ("window = 1", 1, 1, 128),
        ("window = 100", 100, 100, 200),
        ("window = 32\nmax_window = 256", 32, 256, 512),
        ("max_inflight = 20", 16, 1_024, 20),
    ],
)
def test_a_window_that_is_named_is_fixed_and_another_grows(tmp_path, told, window, most, inflight):
    file = tmp_path / "txmanager.toml"
    file.write_text(EVM_POOL + told)
    settings = load(file, {"K": "0x1"})
    policy = lane_policy(settings.networks["chain"], settings.pools["evm"])
    assert (policy.window, policy.max_window, policy.max_inflight) == (window, most, inflight)


def test_a_chain_without_a_pool_takes_one_at_a_time_whatever_is_named(tmp_path):
    file = tmp_path / "txmanager.toml"
    file.write_text(EVM_POOL.replace("chain_id = 1", "chain_id = 295") + "max_window = 64")
    settings = load(file, {"K": "0x1"})
    policy = lane_policy(settings.networks["chain"], settings.pools["evm"])
    assert (policy.window, policy.max_window) == (1, 1)
