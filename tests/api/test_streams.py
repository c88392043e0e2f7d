"""Event streams: every transition, in order, resumable, ended by the final one."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.stage import Stage, bearer
from tests.waiting import until_sync


def events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """(SSE id, data) of each event as it comes; an id without data comes with {}."""
    id = ""
    for line in response.iter_lines():
        if line.startswith("id: "):
            id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            yield id, json.loads(line.removeprefix("data: "))
            id = ""
        elif line == "" and id:
            yield id, {}
            id = ""


def follow(stage: Stage, path: str, last_id: str | None = None, by: str = "all") -> Any:
    headers = {**bearer(by), **({"Last-Event-ID": last_id} if last_id else {})}
    return stage.client.stream("GET", path, headers=headers, timeout=20)


def test_an_intents_stream_tells_every_transition_and_ends(stage: Stage, key: str):
    stage.transfer(key)
    with follow(stage, f"/v1/intents/{key}/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        told = list(events(response))
    assert [data["status"] for _, data in told] == ["queued", "inflight", "done"]
    assert {data["idempotency_key"] for _, data in told} == {key}
    assert told[-1][1]["tx_hash"] == stage.get(f"/v1/intents/{key}").json()["tx_hash"]
    assert len({data["id"] for _, data in told}) == 3


def test_a_stream_goes_on_after_the_last_id_and_says_when_all_was_told(stage: Stage, key: str):
    stage.transfer(key, wait=20)
    with follow(stage, f"/v1/intents/{key}/events") as response:
        told = list(events(response))
    with follow(stage, f"/v1/intents/{key}/events", told[0][0]) as response:
        assert list(events(response)) == told[1:]
    assert stage.client.get(f"/v1/intents/{key}/events", headers={"Last-Event-ID": told[-1][0]}).status_code == 204


@pytest.mark.parametrize("last_id", ["x", "1-", "-1-0", "9" * 40])
@pytest.mark.parametrize("path", ["/v1/intents/{key}/events", "/v1/pools/main/events"])
def test_a_last_id_from_elsewhere_is_refused(stage: Stage, key: str, path, last_id):
    stage.transfer(key)
    refused = stage.client.get(path.format(key=key), headers={"Last-Event-ID": last_id})
    assert (refused.status_code, refused.json()["field"]) == (422, "Last-Event-ID")


def test_an_unknown_intent_or_pool_has_no_stream(stage: Stage):
    assert stage.get("/v1/intents/nobody/events").status_code == 404
    assert stage.get("/v1/pools/nowhere/events").status_code == 422
    assert stage.get("/v1/pools/spare/events", by="narrow").status_code == 403


class Listener(threading.Thread):
    """Reads a pool's stream until it is told to stop."""

    def __init__(self, stage: Stage, last_id: str | None = None, by: str = "all") -> None:
        super().__init__(daemon=True)
        self.told: list[tuple[str, dict[str, Any]]] = []
        self._wanted = True
        self._args = (stage, "/v1/pools/main/events", last_id, by)
        self.start()
        until_sync(lambda: self.told, what="the stream names its place")

    def run(self) -> None:
        try:
            with follow(*self._args) as response:
                for event in events(response):
                    self.told.append(event)
                    if not self._wanted:
                        return
        except httpx.HTTPError:
            if self._wanted:
                raise

    def statuses(self, key: str) -> list[str]:
        return [data["status"] for _, data in self.told if data.get("idempotency_key") == key]

    def leave(self) -> str:
        """The last id; the thread goes with its next event."""
        self._wanted = False
        return next(id for id, _ in reversed(self.told) if id)


def test_a_pools_stream_merges_its_lanes_and_keeps_tenants_apart(stage: Stage):
    keys = [f"p-{secrets.token_hex(6)}" for _ in range(12)]
    mine, theirs = Listener(stage), Listener(stage, by="other")
    for key in keys:
        stage.transfer(key)
    until_sync(lambda: all(mine.statuses(key) == ["queued", "inflight", "done"] for key in keys), 20)
    lanes = {data["lane"] for _, data in mine.told if data}
    assert len(lanes) > 1
    mine.leave()
    stage.transfer(f"o-{secrets.token_hex(6)}", by="other")
    until_sync(lambda: any(data for _, data in theirs.told), 20)
    assert not any(theirs.statuses(key) for key in keys)
    theirs.leave()


def test_a_pools_stream_misses_nothing_between_two_connections(stage: Stage, key: str):
    first = Listener(stage)
    stage.transfer(f"{key}-0", wait=20)
    until_sync(lambda: first.statuses(f"{key}-0")[-1:] == ["done"])
    last_id = first.leave()
    stage.transfer(f"{key}-1", wait=20)
    second = Listener(stage, last_id)
    stage.transfer(f"{key}-2", wait=20)
    until_sync(lambda: second.statuses(f"{key}-2")[-1:] == ["done"])
    assert second.statuses(f"{key}-1") == ["queued", "inflight", "done"]
    assert second.statuses(f"{key}-0") == []
    second.leave()
