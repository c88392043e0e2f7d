"""One trace tells the whole life of an intent, across processes and a killed worker. The receiver is a real one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.stage import ACCOUNTS, Stage, bearer
from tests.api.test_webhooks import Receiver as HookReceiver
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.tracing.receiver import Receiver, Span
from tests.waiting import until_sync

STEPS = {"accept", "queue", "sign", "write ahead", "send", "inclusion", "settle", "webhook"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def hook() -> Iterator[HookReceiver]:
    running = HookReceiver()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=8) as running:
        yield running


@contextmanager
def start_traced(ledger_url: str, devnet: Devnet, receiver: Receiver, hook: HookReceiver) -> Iterator[Stage]:
    more = f"""
[[pools.main.webhooks]]
name = "backend"
url = "{hook.url}"
secret = {{ env = "HOOK_SECRET" }}
statuses = ["done", "failed"]

[tracing]
endpoint = "{receiver.url}"
sample = 0.0
"""
    with Stage(ledger_url, f"t{secrets.token_hex(6)}", devnet, pool_more=more, lanes=1, spare=False) as stage:
        stage.start()
        stage.webhooks.start()
        yield stage


@pytest.fixture(scope="module")
def traced(redis7: HasUrl, devnet: Devnet, receiver: Receiver, hook: HookReceiver) -> Iterator[Stage]:
    with start_traced(redis7.url, devnet, receiver, hook) as stage:
        yield stage


class Caller:
    """Somebody who traces: each request carries the `traceparent` of this span."""

    def __init__(self, flags: str = "01") -> None:
        self.trace, self.span = secrets.token_hex(16), secrets.token_hex(8)
        self.header = {"traceparent": f"00-{self.trace}-{self.span}-{flags}"}


def transfer(stage: Stage, key: str, caller: Caller, receiver_id: str = "dev1.near") -> dict[str, object]:
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": receiver_id, "amount": "1"}}
    answer = stage.client.post("/v1/intents", json=body, headers={**bearer(), **caller.header, "Idempotency-Key": key})
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


def until_spans(receiver: Receiver, caller: Caller, names: set[str]) -> list[Span]:
    def there() -> bool:
        return names <= {span.name for span in receiver.spans(caller.trace)}

    try:
        until_sync(there, 30)
    except AssertionError:
        missing = names - {span.name for span in receiver.spans(caller.trace)}
        raise AssertionError(f"no span {missing} among {receiver.spans(caller.trace)}") from None
    return receiver.spans(caller.trace)


def story(stage: Stage, devnet: Devnet, receiver: Receiver, caller: Caller, key: str) -> list[Span]:
    """The worker is killed after the send and before the next block; another one finishes."""
    devnet.fault("stall")
    try:
        transfer(stage, key, caller)
        until_spans(receiver, caller, {"send"})
        stage.worker.kill()
        stage.worker.start()
        until_spans(receiver, caller, {"recover"})
    finally:
        devnet.clear_faults()
    return until_spans(receiver, caller, STEPS | {"recover"})


def test_one_trace_spans_the_whole_life_across_a_killed_worker(
    traced: Stage, devnet: Devnet, receiver: Receiver, hook: HookReceiver
):
    caller, key = Caller(), f"pay-{secrets.token_hex(4)}"
    spans = story(traced, devnet, receiver, caller, key)
    request = next(span for span in spans if span.name == "POST /v1/intents")
    assert request.parent == caller.span
    assert {span.parent for span in spans if span is not request} == {request.id}
    assert {span.facts["key"] for span in spans if "key" in span.facts} == {key}
    first = {span.name: span for span in reversed(spans)}
    order = ["accept", "queue", "sign", "write ahead", "send", "settle", "webhook"]
    begins = [first[name].began for name in order]
    assert begins == sorted(begins)
    assert {first[name].service for name in STEPS} == {"txmanager-api", "txmanager-worker", "txmanager-webhooks"}
    assert first["settle"].facts["status"] == "done"
    posted = [headers for headers, body in hook.calls if key.encode() in body]
    assert {headers["traceparent"].split("-")[1] for headers in posted} == {caller.trace}, "receivers can go on with it"


def test_a_failure_is_marked_and_a_retry_joins_its_own_callers_trace(traced: Stage, receiver: Receiver):
    first, again, key = Caller(), Caller(), f"pay-{secrets.token_hex(4)}"
    record = transfer(traced, key, first, receiver_id="nobody.near")
    spans = until_spans(receiver, first, {"settle"})
    assert [span.failed for span in spans if span.name == "settle"] == [True]
    replayed = transfer(traced, key, again, receiver_id="nobody.near")
    assert replayed["idempotency_key"] == record["idempotency_key"]
    [accept] = [span for span in until_spans(receiver, again, {"accept"}) if span.name == "accept"]
    assert accept.facts["replayed"] == "true"
    assert "sign" not in {span.name for span in receiver.spans(again.trace)}, "nothing was done again"


@pytest.mark.parametrize(
    "header",
    [
        "00-" + "0" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "0" * 16 + "-01",
        "ff-" + "a" * 32 + "-" + "1" * 16 + "-01",
        "00-" + "A" * 32 + "-" + "1" * 16 + "-01",
        "x" * 5000,
        '"}\r',
    ],
)
def test_a_broken_traceparent_is_ignored(traced: Stage, header: str):
    caller = Caller()
    caller.header = {"traceparent": header.strip()}
    record = transfer(traced, f"pay-{secrets.token_hex(4)}", caller)
    assert record["status"] in ("queued", "inflight", "done")


def test_a_caller_that_does_not_sample_leaves_no_span(traced: Stage, receiver: Receiver):
    silent, spoken = Caller(flags="00"), Caller()
    transfer(traced, f"pay-{secrets.token_hex(4)}", silent)
    transfer(traced, f"pay-{secrets.token_hex(4)}", spoken)  # the same lane: it comes after
    until_spans(receiver, spoken, {"settle"})
    assert receiver.spans(silent.trace) == []
