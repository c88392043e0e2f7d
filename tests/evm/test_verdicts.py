"""Every refusal that clients are known to answer gets its class by rules that read the words, never the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.chains.evm.verdicts import VERDICTS, Refusal, classify, normalised, read_failure, read_message
from txmanager.core.chain import Verdict
from txmanager.rpc.errors import BadAnswer, ConnectionFailed, RateLimited, RpcError, TimedOut


def vectors(name: str) -> list[tuple[str, Refusal]]:
    lines = (Path(__file__).parent / name).read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    return [(message, Refusal(refusal)) for _, message, refusal in rows]


LISTED = vectors("errors.tsv")
OTHERS = vectors("more_errors.tsv")


@pytest.mark.parametrize(("message", "refusal"), LISTED + OTHERS)
def test_each_message_has_its_class(message, refusal):
    assert read_message(message) is refusal


@pytest.mark.parametrize(("message", "refusal"), LISTED)
def test_the_class_survives_case_code_prefix_and_a_longer_end(message, refusal):
    assert read_message(normalised(message).upper()) is refusal
    assert read_message(f"{message}. And then the client says more") is refusal
    for code in (-32000, -32003, -32005, -32010, 32001, 3):
        assert read_failure(RpcError({"code": code, "message": message})) is refusal


def test_a_contract_that_quotes_a_node_does_not_fool_the_rules():
    for message, _ in LISTED:
        assert read_message(f"execution reverted: {message}") in (Refusal.PERMANENT,)


def test_the_reason_may_stand_in_the_data():
    told = RpcError({"code": -32000, "message": "Server error", "data": {"message": "nonce too low"}})
    assert read_failure(told) is Refusal.NONCE_TOO_LOW
    assert read_failure(RpcError({"code": -32010, "message": "oops", "data": "AlreadyKnown"})) is Refusal.ALREADY_KNOWN


def test_a_broken_connection_leaves_the_outcome_unknown():
    for failure in (ConnectionFailed("gone"), TimedOut("no answer")):
        assert classify(failure).verdict is Verdict.UNAVAILABLE
    assert classify(RateLimited("x: too many requests (HTTP 429)")).verdict is Verdict.RATE_LIMITED
    assert classify(BadAnswer("host:80: HTTP 502 without a JSON-RPC answer")).verdict is Verdict.UNAVAILABLE
    assert classify(BadAnswer("host:80: HTTP 200 with neither result nor error")).verdict is Verdict.UNKNOWN


def test_an_endpoint_that_refuses_to_serve_us_never_condemns_the_bytes():
    for said in (
        "the method eth_sendRawTransaction is not allowed",
        "invalid API key",
        "Unauthorized",
        "403 Forbidden",
    ):
        assert VERDICTS[read_message(said)] in (Verdict.UNAVAILABLE, Verdict.UNKNOWN)


@given(st.text(alphabet=st.sampled_from("bcdfhjkqvwz 0123456789.:,-"), max_size=80))
def test_words_nobody_knows_are_unknown(noise):
    assert read_message("zz" + noise) is Refusal.UNKNOWN


@given(st.text(max_size=400))
def test_any_text_gets_some_verdict(text):
    assert read_message(text) in VERDICTS
    assert len(classify(RpcError({"message": text})).message) <= 500
