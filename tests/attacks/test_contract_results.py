"""What a contract chooses is opaque: it is cut to size, and the transaction ends its intent by its status."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.stage import Stage
from txmanager.api.records import record_bytes
from txmanager.core.bounds import MAX_DEPTH, MAX_RESULT_BYTES, bounded, exact_json
from txmanager.core.errors import InvalidInput
from txmanager.core.models import Intent, Outcome, new_intent
from txmanager.core.states import LaneState, Status
from txmanager.ledger.redis import codec
from txmanager.runtime.care.sweeper import Sweeper

DEEP = b"[" * 400 + b"1" + b"]" * 400
HOSTILE = {
    "nested 400 deep": DEEP,
    "nested 900 deep": b'{"a":' * 900 + b"1" + b"}" * 900,
    "nested 20,000 deep": b"[" * 20_000 + b"]" * 20_000,
    "60 kB of text": b'"' + b"x" * 60_000 + b'"',
    "300 kB": b"\xff" * 300_000,
    "a lone surrogate": b'"\\ud800"',
    "a number of 5,000 digits": b"9" * 5_000,
    "not a number": b"NaN",
    "no UTF-8": b'"\xc3\x28"',
    "nulls": b"\x00" * 9_000,
}


def echo(key: str, value: bytes, **more: Any) -> Intent:
    args = {"value_base64": base64.b64encode(value).decode(), **more}
    payload = {"contract_id": "counter.near", "method_name": "echo", "args": args}
    return new_intent(key=key, pool="p", kind="near.function_call", payload=payload)


@pytest.mark.parametrize("what", ["nested 400 deep", "60 kB of text", "a lone surrogate"])
async def test_no_return_value_keeps_a_lane_from_settling(lanes: Stage, what: str) -> None:
    await lanes.start()
    intents = [lanes.transfer("before", 1), echo("evil", HOSTILE[what]), lanes.transfer("after", 2)]
    before, evil, after = await lanes.done(await lanes.submit(*intents))
    assert evil.outcome is not None
    assert evil.outcome.result is not None
    assert len(record_bytes(evil)) < MAX_RESULT_BYTES + 2_000
    assert evil.outcome.result["value_truncated" if what != "a lone surrogate" else "value"] in (True, "?")
    assert (before.status, after.status) == (Status.DONE, Status.DONE)
    await Sweeper(lanes.ledger).sweep_once()
    view = await lanes.until_lane(LaneState.ACTIVE)
    assert (view.unretired, view.depth) == (0, 0), "retirement goes on"
    again = await lanes.producer.submit(intents[1])
    assert again.replayed
    assert record_bytes(again.record)


async def test_logs_of_a_contract_are_cut_and_said_to_be(lanes: Stage) -> None:
    await lanes.start()
    [record] = await lanes.done(await lanes.submit(echo("loud", b"1", log="ä" * 900, logs=60)))
    assert record.outcome is not None
    result = record.outcome.result
    assert result is not None
    assert (result["value"], result["logs_truncated"]) == (1, True)
    assert result["logs"]
    assert len(orjson.dumps(result)) <= MAX_RESULT_BYTES


async def test_record_that_an_older_release_stored_too_deep_is_answered_and_retired(redis_lanes: Stage) -> None:
    """0.1.0 could just store what could not be wrapped once more: a 500 for its caller, no retirement for all."""
    lanes = redis_lanes
    await lanes.start()
    [id] = await lanes.submit(lanes.transfer("old", 1))
    [record] = await lanes.done([id])
    value: Any = 1
    deepest = record.outcome
    assert deepest is not None
    while True:  # the deepest that the writer of 0.1.0 took
        value = [value]
        try:
            codec.pack_outcome(next_one := replace(deepest, result={"value": value}))
        except InvalidInput:
            break
        deepest = next_one
    deep = replace(record, outcome=deepest)
    assert b'"value_truncated":true' in record_bytes(deep)
    assert b'"value_truncated":true' in codec.pack_final(deep)


@pytest.mark.parametrize("what", HOSTILE)
def test_reading_a_return_value_never_fails(what: str) -> None:
    value, whole = exact_json(HOSTILE[what])
    orjson.dumps(value)
    assert whole is not what.startswith("nested")


def test_numbers_stay_exact() -> None:
    told = (
        b'{"a": 9007199254740993, "b": -18446744073709551616, "c": 0.1, "d": 12345678901234567.89, "e": 7, "f": 1e400}'
    )
    value, whole = exact_json(told)
    assert whole
    assert value == {
        "a": "9007199254740993",
        "b": "-18446744073709551616",
        "c": 0.1,
        "d": "12345678901234567.89",
        "e": 7,
        "f": "1e400",
    }
    assert exact_json(b"9007199254740992")[0] == 2**53


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300) | st.binary(max_size=9)
ANY: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
)


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=80), st.builds(_nested, ANY, st.sampled_from([0, 0, 0, 40, 300, 5_000])), max_size=6
    ),
    st.none() | st.dictionaries(st.sampled_from(["code", "message", "cause", "spent"]), ANY, max_size=4),
    st.sampled_from([1_024, MAX_RESULT_BYTES]),
)
def test_bounding_an_outcome_never_fails_and_keeps_its_end(result: Any, error: Any, most: int) -> None:
    before = Outcome(Status.FAILED, "h", 7, result, error)
    kept = bounded(before, most)
    assert (kept.status, kept.tx_hash, kept.nonce) == (before.status, "h", 7)
    assert (kept.error is None) == (error is None)
    assert codec.pack_outcome(kept)
    assert _depth(kept.result) <= MAX_DEPTH + 2
    assert repr(bounded(before, most)) == repr(kept), "every observer builds the same"


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


@given(st.text(max_size=20_000), st.lists(st.text(max_size=2_000), max_size=20))
@settings(max_examples=60, deadline=None)
def test_what_is_kept_fits(value: str, logs: list[str]) -> None:
    result = {"block_hash": "b" * 64, "value": value, "value_base64": value, "logs": logs, "gas_burnt": "1"}
    kept = bounded(Outcome(Status.DONE, "h", 7, result))
    assert kept.result is not None
    assert (kept.result["block_hash"], kept.result["gas_burnt"]) == ("b" * 64, "1"), "what is small is never cut"
    assert len(orjson.dumps(kept.result)) <= MAX_RESULT_BYTES
    for name in ("value", "value_base64", "logs"):
        assert (kept.result[name] == result[name]) is not kept.result.get(f"{name}_truncated", False)
