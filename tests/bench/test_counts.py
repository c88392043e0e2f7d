"""The gate on performance: work counted per intent on the production path, which no busy machine can blur.

A figure that grows past its bound means that batching, pipelining or a shortcut was lost.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.contenders import tree_of
from bench.figures import drain_ours, drain_signed, percentile, stage
from bench.membership import measure
from bench.processes import ROOT, ask, redis_server
from bench.report import bars

JOBS = 1_600


@pytest.fixture(scope="module")
def drained() -> dict[str, Any]:
    return drain_ours(JOBS)


def test_an_intent_takes_less_than_a_third_of_a_round_trip_to_redis(drained):
    assert drained["round_trips"] < 0.33


def test_an_intent_takes_few_scripts_and_commands(drained):
    assert drained["scripts"] < 0.25
    assert drained["commands"] < 7.2


def test_an_intent_writes_less_than_2250_bytes_after_its_acceptance(drained):
    assert 1_000 < drained["written"] < 2_250


def test_a_small_window_needs_no_take_for_each_intent():
    """With window 1 every intent is written ahead and settled by itself."""
    told = drain_ours(400, "--window", "1")
    assert told["scripts"] < 2.5
    assert told["round_trips"] < 2.5


@pytest.mark.alone
def test_a_worker_runs_few_functions_for_an_intent():
    assert 100 < drain_ours(JOBS, "--window", "64", "--count-calls")["calls"] < 490


def test_a_slow_signer_is_asked_for_whole_windows():
    """At 30 ms per signature a lane with window 16 ends as many as 16 per 30 ms only if it never asks for fewer."""
    told = drain_signed(800, "30ms")
    assert told["violations"] == 0
    assert told["signed_in"] <= 800 / 16 * 1.2


def test_an_intent_takes_one_send_one_look_and_a_share_of_a_reading(drained):
    assert drained["requests"] / JOBS < 2.3


def test_connections_are_kept_not_made(drained):
    assert drained["connections"] < 8 * 4


def test_sends_arrive_in_order(drained):
    assert drained["violations"] == 0


def test_a_quiet_tick_costs_the_same_with_any_number_of_lanes():
    with redis_server() as redis:
        few, many = (asyncio.run(measure(redis, lanes, 5, 2, str(lanes))) for lanes in (10, 1_000))
    assert many["quiet"]["owners chosen"] == few["quiet"]["owners chosen"] == 0
    assert many["quiet"]["bytes read"] + many["quiet"]["bytes written"] < 1_500
    assert many["first"]["owners chosen"] == 1_000
    assert many["first"]["bytes read"] < 1.5 * 1_000 * 100, "one worker's lanes are read, not everybody's"


def test_the_sink_counts_what_arrives_out_of_order():
    """Else the zero above would mean nothing."""
    from bench.peers.job import BlockingLink, Key

    with stage() as at:
        key, link = Key(0), BlockingLink(at.sink)
        for nonce in (5, 6, 8, 7, 8):
            link.post(key.request_at(nonce, nonce))
        told = ask(at.sink, "bench_stats")
        assert told["violations"] == 2
        assert told["asked"]["broadcast_tx_async"] == 5


def test_percentiles_are_of_the_sorted_values():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(100)], 0.99) == 99.0


def test_a_plot_names_every_contender(tmp_path):
    bars(tmp_path / "x.svg", "Drained", "jobs/s", [("txmanager", 2.0), ("other", 1.0)])
    drawn = (tmp_path / "x.svg").read_text()
    assert "txmanager" in drawn
    assert "other" in drawn
    assert drawn.startswith("<svg")


def test_a_peer_sends_and_looks_up_what_became_of_it():
    from bench.peers.job import BlockingLink, Key, look_up, outcome

    with stage() as at:
        link = BlockingLink(at.sink)
        hash = link.post(Key(0).request(7))
        assert "SuccessValue" in outcome(link.post(look_up(7, hash)))
        assert ask(at.sink, "bench_stats")["asked"] == {
            "broadcast_tx_async": 1,
            "EXPERIMENTAL_tx_status": 1,
            "bench_stats": 1,
        }


def test_what_a_server_wrote_only_grows():
    """A rewrite of the file in the middle of a measurement would count as bytes that were never written."""
    with stage() as at:
        told = at.redis.client.config_get("auto-aof-rewrite-percentage")
        assert told == {"auto-aof-rewrite-percentage": "0"}


def test_a_commit_to_measure_against_is_another_tree_and_an_unknown_one_is_named():
    with tree_of("HEAD") as tree:
        assert (tree / "bench" / "ours.py").is_file()
        assert tree != ROOT
    with pytest.raises(SystemExit, match=r"--against: .*never-was"), tree_of("never-was"):
        pass
