"""Webhooks: signed, at least once, remembered through kills, and what nobody took can be seen and sent again."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.api.stage import Stage
from tests.waiting import until_sync
from txmanager.client import verify_webhook

SECRET = "hook-secret"


class Receiver:
    """A real HTTP server that keeps what it is sent and answers what it is told to."""

    def __init__(self) -> None:
        self.status = 200
        self.calls: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.calls.append((dict(self.headers), body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook"

    def statuses(self, key: str) -> list[str]:
        told = [json.loads(body) for _, body in self.calls]
        return [event["status"] for event in told if event["idempotency_key"] == key]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    running = Receiver()
    yield running
    running.server.shutdown()
    running.server.server_close()


@pytest.fixture
def hooked(redis7, devnet, prefix, receiver, make_stage) -> Stage:
    more = f"""
[[pools.main.webhooks]]
name = "backend"
url = "{receiver.url}"
secret = {{ env = "HOOK_SECRET" }}
statuses = ["queued", "inflight", "done", "failed", "cancelled", "held"]
retry_for_s = 0.0
timeout_s = 2.0
"""
    stage: Stage = make_stage(redis7.url, prefix, devnet, pool_more=more, lanes=2)
    stage.start()
    stage.webhooks.start()
    return stage


def test_events_are_delivered_signed_in_order_and_through_a_kill(hooked: Stage, receiver: Receiver):
    keys = [f"w-{n}" for n in range(20)]
    for key in keys[:10]:
        hooked.transfer(key)
    until_sync(lambda: all(receiver.statuses(key)[-1:] == ["done"] for key in keys[:10]), 30)
    hooked.webhooks.kill()
    for key in keys[10:]:
        hooked.transfer(key, wait=20)
    hooked.webhooks.start()
    until_sync(lambda: all(receiver.statuses(key)[-1:] == ["done"] for key in keys), 40)
    for key in keys:
        seen = receiver.statuses(key)
        assert set(seen) == {"queued", "inflight", "done"}
        assert seen[:3] == ["queued", "inflight", "done"]
    for headers, body in receiver.calls:
        assert verify_webhook(SECRET, headers["Txmanager-Signature"], body)
        assert not verify_webhook("another", headers["Txmanager-Signature"], body)
        assert headers["Txmanager-Event"] == json.loads(body)["id"]
    again = Counter(headers["Txmanager-Event"] for headers, _ in receiver.calls)
    assert max(again.values()) <= 2, "the page that was under way at the kill, at most"


def test_what_nobody_takes_becomes_a_dead_letter_that_can_be_sent_again(hooked: Stage, receiver: Receiver):
    receiver.status = 500
    hooked.transfer("dead", wait=20)

    def dead() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = hooked.get("/v1/webhooks/dead").json()["dead"]
        return found

    until_sync(lambda: len(dead()) == 3, 40)
    letter = next(found for found in dead() if found["event"]["status"] == "done")
    assert (letter["target"], letter["error"]) == ("main/backend", "answered 500")
    assert letter["tries"] >= 3
    receiver.status = 200
    before = len(receiver.calls)
    assert hooked.client.post(f"/v1/webhooks/dead/{letter['id']}/retry").status_code == 202
    until_sync(lambda: len(receiver.calls) > before, 20)
    assert json.loads(receiver.calls[-1][1]) == letter["event"]
    until_sync(lambda: len(dead()) == 2)
    assert hooked.client.post("/v1/webhooks/dead/nothing/retry").status_code == 404
    # delivery went on behind the letters
    hooked.transfer("alive", wait=20)
    until_sync(lambda: receiver.statuses("alive")[-1:] == ["done"], 20)


@pytest.mark.parametrize("signature", ["", "t=1", "v1=aa", "t=x,v1=aa", "t=99999999999999,v1=aa", "t=1,v1=ä"])
def test_a_broken_signature_is_no_signature(signature: str):
    assert not verify_webhook(SECRET, signature, b"{}")


def test_an_old_call_is_a_replay():
    from txmanager.runtime.deliver.webhooks import sign

    signature = sign(SECRET.encode(), b"{}", 1_000)
    assert verify_webhook(SECRET, signature, b"{}", now=1_200)
    assert not verify_webhook(SECRET, signature, b"{}", now=1_400)
    assert not verify_webhook(SECRET, signature, b"{} ", now=1_200)
