"""`GET /v1/live` over HTTP: who sees what, and when a stream ends."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from tests.api.stage import Stage, bearer


def looks(stage: Stage, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    timeout = httpx.Timeout(20, read=30)
    with httpx.stream("GET", f"{stage.url}/v1/live", headers=headers, timeout=timeout) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def statuses(stream: Iterator[dict[str, Any]], key: str, end: Callable[[str], bool]) -> list[str]:
    seen: list[str] = []
    for look in stream:
        for event in look["events"]:
            if event["idempotency_key"] == key:
                seen.append(event["status"])
                if end(event["status"]):
                    return seen
    return seen


def test_a_page_sees_its_intents_to_their_end_and_the_lanes_that_move(stage: Stage, key: str):
    stream = looks(stage, bearer("all"))
    first = next(stream)
    assert first["all"]
    assert len(first["lanes"]) == 4
    stage.transfer(key)
    assert statuses(stream, key, lambda status: status == "done")[-1] == "done"


def test_a_token_of_another_tenant_sees_nothing_of_it_and_ops_sees_whose_it_is(stage: Stage, key: str):
    theirs, ops = looks(stage, bearer("other")), looks(stage, bearer("ops"))
    assert next(theirs)["all"]
    next(ops)
    stage.transfer(key)
    mine = f"k-{secrets.token_hex(8)}"
    for look in ops:
        told = [event for event in look["events"] if event["idempotency_key"] == key]
        if told:
            assert told[0]["tenant"] == "default"
            break
    stage.transfer(mine, by="other")
    seen = []
    for look in theirs:
        seen += [event["idempotency_key"] for event in look["events"]]
        assert all(not lane["evidence"] for lane in look["lanes"])
        if mine in seen:
            break
    assert set(seen) == {mine}


def test_a_stream_ends_with_its_session(stage: Stage):
    code = stage.client.post("/v1/sessions/codes", headers=bearer("reader")).json()["code"]
    token = stage.client.post("/v1/sessions", json={"code": code}).json()["token"]
    session = {"Authorization": f"Bearer {token}"}
    stream = looks(stage, session)
    next(stream)
    assert stage.client.delete("/v1/session", headers=session).json() == {"ended": True}
    assert list(stream) is not None, "it ends, or the client's time-out raises"


def test_a_token_without_read_gets_none(stage: Stage):
    assert stage.client.get("/v1/live", headers=bearer("writer")).status_code == 403
