"""`[gateway]`: what contradicts itself does not load; variables of older relays count where the file says nothing."""

from __future__ import annotations

import pytest

from txmanager.core.errors import InvalidSettings
from txmanager.settings import load
from txmanager.settings.gateway import SEED_NAMES, GatewaySettings, with_seed_names

EVM = '[networks.a]\nchain = "evm"\nchain_id = 1\nrpc = [{ url = "http://127.0.0.1:1" }]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gateway]\n", "needs a network"),
        (EVM + '[gateway]\nnetworks = ["b"]\n', "gateway.networks: b is no network"),
        (EVM + '[gateway]\nhost = "0.0.0.0"\n', "public = true"),
        (EVM + "[gateway]\nhold_ms = 5000\n", "must be more than lag_ms"),
        (EVM + '[gateway]\nallow = ["eth_sendTransaction"]\n', "only reads can be allowed"),
        (EVM + '[gateway]\nallow = ["debug trace"]\n', "names of methods"),
        (EVM + '[gateway]\ncors = ["app.example.com"]\n', "must be origins"),
        (EVM + '[gateway]\ntrusted_proxies = ["x"]\n', "gateway.trusted_proxies"),
        (EVM + '[gateway]\nmode = "both"\n', "gateway.mode"),
        (EVM + "[gateway]\nhigh_water = 1\n", "did you mean 'high_watermark'?"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, text, words):
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(InvalidSettings) as found:
        load(path, {})
    assert words in str(found.value)


def test_an_empty_table_is_a_gateway_with_both_switches_on(tmp_path):
    path = tmp_path / "t.toml"
    path.write_text(EVM + "[gateway]\n")
    told = load(path, {}).gateway
    assert told is not None
    assert (told.txpool, told.ordering, told.mode, told.on_store_failure) == (True, True, "sync", "refuse")
    path.write_text(EVM)
    assert load(path, {}).gateway is None


def test_the_older_relays_variables_count_where_the_file_says_nothing():
    environment = {
        "ENABLE_TX_POOL": "false",
        "ENABLE_NONCE_ORDERING": "TRUE",
        "USE_ASYNC_TX_PROCESSING": "true",
        "REDIS_ENABLED": "false",
        "LOCK_MAX_HOLD_MS": "20000",
        "LOCK_QUEUE_POLL_INTERVAL_MS": "25",
        "LOCAL_LOCK_MAX_ENTRIES": "7",
    }
    assert environment.keys() == SEED_NAMES.keys()
    told, used = with_seed_names(GatewaySettings(ordering=False), environment)
    assert "ordering" not in used
    assert (told.txpool, told.ordering, told.mode, told.store) == (False, False, "async", "memory")
    assert (told.hold_ms, told.poll_ms, told.memory_senders) == (20_000, 25, 7)
    for variable, text in (("ENABLE_TX_POOL", "yes"), ("LOCK_MAX_HOLD_MS", "30 s")):
        with pytest.raises(InvalidSettings, match=variable):
            with_seed_names(GatewaySettings(), {variable: text})
