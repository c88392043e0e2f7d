"""Intents as lines of JSON: answered one by one while they arrive, in bounded memory, and a lost connection loses
nothing that was accepted."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.api.stage import RECEIVER, Stage, bearer, token
from tests.waiting import until_sync
from txmanager.client.http import ReplyReader

LIMITED = f"""
ledger_timeout_s = 10.0
max_body_bytes = 4096
header_timeout_s = 1.0
body_timeout_s = 1.0
write_timeout_s = 1.0
max_streams_per_token = 3
[[api.tokens]]
name = "paced"
sha256 = "{hashlib.sha256(token("paced").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
per_second = 100
burst = 10
[[api.tokens]]
name = "halted"
sha256 = "{hashlib.sha256(token("halted").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
per_second = 0.01
burst = 5
[[api.tokens]]
name = "roomy"
sha256 = "{hashlib.sha256(token("roomy").encode()).hexdigest()}"
scopes = ["submit", "read"]
[api.tokens.limits]
max_queued = 4
"""


@pytest.fixture(scope="module")
def lined(redis7, devnet) -> Iterator[Stage]:
    with Stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more=LIMITED) as running:
        yield running.start()


def line(key: str | None, amount: int = 1, **more: Any) -> bytes:
    payload = {"receiver_id": f"dev{RECEIVER}.near", "amount": str(amount)}
    body = {"pool": "main", "kind": "near.transfer", "payload": payload, **more}
    return json.dumps(body if key is None else {"idempotency_key": key, **body}).encode() + b"\n"


class Lines:
    """One request whose body is written piece by piece while its answer is read."""

    def __init__(self, stage: Stage, by: str = "all", more: str = "", receive_bytes: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.settimeout(30)
        self._socket.connect(("127.0.0.1", stage.port))
        self._reader, self._text = ReplyReader(), b""
        head = f"POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer(by)['Authorization']}\r\n{more}"
        head += "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._socket.sendall(head.encode())

    def send(self, body: bytes) -> Self:
        self._socket.sendall(b"%x\r\n%s\r\n" % (len(body), body))
        return self

    def end(self) -> Self:
        self._socket.sendall(b"0\r\n\r\n")
        return self

    def next(self) -> dict[str, Any]:
        """The next answer."""
        while b"\n" not in self._text:
            self._reader.feed(self._socket.recv(65_536), bounded=False)
            self._text += self._reader.take()
        told, _, self._text = self._text.partition(b"\n")
        return dict(json.loads(told))

    def rest(self) -> list[dict[str, Any]]:
        while not self._reader.complete:
            self._reader.feed(self._socket.recv(65_536), bounded=False)
            self._text += self._reader.take()
        assert self._reader.status == 200, self._text
        return [json.loads(told) for told in self._text.splitlines()]

    @property
    def status(self) -> int:
        while not self._reader.started:
            self._reader.feed(self._socket.recv(65_536))
        return self._reader.status

    def is_cut(self) -> bool:
        try:
            self.send(b"\n")
        except OSError:
            return True
        return False

    def close(self) -> None:
        self._socket.close()


def answers(stage: Stage, body: bytes, by: str = "all") -> list[dict[str, Any]]:
    lines = Lines(stage, by).send(body).end()
    try:
        return lines.rest()
    finally:
        lines.close()


def test_bad_line_gets_its_own_problem_with_its_number_and_the_stream_goes_on(lined: Stage, key: str):
    body = b"".join(
        [
            line(f"{key}-1"),
            b"{not json}\n",
            b"\n",
            b"[1]\n",
            line(f"{key}-5", metadata={"long": "x" * 5_000}),
            line(f"{key}-6", amount=-1),
            b'{"kind": "near.transfer"}\n',
            line(f"{key}-1", amount=2),
            line(f"{key}-9").rstrip(b"\n") + b"\r\n",
            line(None),
            line(f"{key}-11").rstrip(b"\n"),
        ]
    )
    told = answers(lined, body)
    assert [one["line"] for one in told] == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11], "a blank line is not answered"
    codes = {one["line"]: one["problem"]["code"] for one in told if one["result"] == "refused"}
    assert codes == {
        2: "malformed_request",
        4: "malformed_request",
        5: "body_too_large",
        6: "invalid_input",
        7: "invalid_input",
        8: "idempotency_key_reused",
        10: "missing_idempotency_key",
    }
    assert [one["line"] for one in told if one["result"] == "accepted"] == [1, 9, 11]
    assert [one["result"] for one in answers(lined, body) if "record" in one] == ["replayed"] * 3


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_lines_are_the_same_however_the_body_is_cut(lined: Stage, key: str, size: int):
    body = line(f"{key}-1") + b"x" * 5_000 + b"\n\n" + line(f"{key}-4") + b"y" * 4_097 + b"\n" + b"z" * 4_096
    lines = Lines(lined)
    for start in range(0, len(body), size):
        lines.send(body[start : start + size])
    told = lines.end().rest()
    lines.close()
    shown = [(one["line"], one["status"]) for one in told]
    assert shown == [(1, 202), (2, 413), (4, 202), (5, 413), (6, 400)]


def test_each_line_is_answered_before_the_next_one_is_sent(lined: Stage, key: str):
    lines = Lines(lined)
    for n in range(1, 4):
        told = lines.send(line(f"{key}-{n}")).next()
        assert (told["line"], told["result"]) == (n, "accepted")
        assert told["record"]["idempotency_key"] == f"{key}-{n}"
    assert lines.end().rest() == []
    lines.close()


def test_order_of_the_lines_is_the_order_of_the_lane(lined: Stage, key: str):
    told = answers(lined, b"".join(line(f"{key}-{n}", partition_key=key) for n in range(600)))
    assert {one["result"] for one in told} == {"accepted"}
    assert len({one["record"]["lane"] for one in told}) == 1

    def nonces() -> list[int | None]:
        shown = [lined.get(f"/v1/intents/{key}-{n}?pool=main").json() for n in (0, 1, 255, 256, 257, 598, 599)]
        return [one.get("nonce") for one in shown]

    until_sync(lambda: None not in nonces(), 60, what="all were signed")
    assert nonces() == sorted(nonces())  # type: ignore[type-var]


def test_disconnect_loses_nothing_that_was_accepted_and_half_a_line_is_none(lined: Stage, key: str):
    lines = Lines(lined)
    lines.send(b"".join(line(f"{key}-{n}") for n in range(300)))
    assert lines.next()["result"] == "accepted"
    lines.send(line(f"{key}-half")[:-2])
    lines.close()
    until_sync(lambda: lined.get(f"/v1/intents/{key}-299?pool=main").status_code == 200, 30, what="the last whole line")
    again = answers(lined, b"".join(line(f"{key}-{n}") for n in range(300)) + line(f"{key}-half"))
    assert [one["result"] for one in again] == ["replayed"] * 300 + ["accepted"]


def test_client_that_does_not_read_is_cut_off_and_its_retry_finds_everything(lined: Stage, key: str):
    body = [line(f"{key}-{n}", metadata={"filling": "x" * 3_000}) for n in range(600)]
    lines = Lines(lined, receive_bytes=4096)

    def cut() -> None:
        for one in body:
            lines.send(one)
        while True:
            lines.send(b"\n")

    with pytest.raises(OSError):  # reset, or nobody took what was sent within 30 s
        cut()
    lines.close()
    again = answers_while_sending(lined, body)
    words = [one["result"] for one in again]
    accepted_before = words.count("replayed")
    assert words == ["replayed"] * accepted_before + ["accepted"] * (600 - accepted_before)
    assert 0 < accepted_before < 600, "sent only as fast as it is answered"


def answers_while_sending(stage: Stage, body: list[bytes], by: str = "all") -> list[dict[str, Any]]:
    lines, told = Lines(stage, by), []
    for one in body:
        told.append(lines.send(one).next())
    told += lines.end().rest()
    lines.close()
    return told


def test_rate_slows_a_stream_down_and_refuses_nothing(lined: Stage, key: str):
    told = answers(lined, b"".join(line(f"{key}-{n}") for n in range(60)), "paced")
    assert [(one["line"], one["result"]) for one in told] == [(n, "accepted") for n in range(1, 61)]


def test_lines_count_one_by_one_against_rate_and_room(lined: Stage, key: str):
    told = answers(lined, b"".join(line(f"{key}-{n}") for n in range(8)), "halted")
    assert [one["result"] for one in told] == ["accepted"] * 5 + ["refused"] * 3
    assert {one["problem"]["code"] for one in told[5:]} == {"quota_used"}
    assert told[5]["problem"]["retry_after_s"] > 10
    lanes = [one["lane"] for one in lined.get("/v1/lanes").json()["lanes"]]
    for lane in lanes:
        lined.post(f"/v1/lanes/{lane}/pause", {}, by="ops")
    try:
        # one by one: a stall of a second within a page would count again what the page has not stored yet
        full = answers_while_sending(lined, [line(f"{key}-q{n}") for n in range(7)], "roomy")
        assert [one["result"] for one in full] == ["accepted"] * 4 + ["refused"] * 3
        assert {one["problem"]["code"] for one in full[4:]} == {"token_queue_full"}
    finally:
        for lane in lanes:
            lined.post(f"/v1/lanes/{lane}/resume", {}, by="ops")


def test_client_that_sends_nothing_is_answered_where_it_ended(lined: Stage, key: str):
    lines = Lines(lined).send(line(f"{key}-1") + b'{"half')
    assert lines.next()["result"] == "accepted"
    ended = lines.next()
    assert (ended["line"], ended["result"], ended["status"]) == (2, "ended", 408)
    until_sync(lines.is_cut, 30, what="what is sent after the end is not read for ever")
    lines.close()


def test_streams_of_one_token_are_bounded(lined: Stage, key: str):
    open_ones = [Lines(lined).send(line(f"{key}-{n}")) for n in range(3)]
    assert {one.next()["result"] for one in open_ones} == {"accepted"}
    refused = Lines(lined)
    assert refused.status == 429
    for one in (*open_ones, refused):
        one.close()
    until_sync(lambda: Lines(lined).send(line(f"{key}-9")).end().status == 200, 20, what="a place is free")


@pytest.mark.parametrize(
    ("header", "path", "status"),
    [("Content-Encoding: gzip\r\n", "", 415), ("", "?dry_run=true", 422)],
)
def test_what_cannot_be_read_is_refused_before_a_line_is_accepted(lined: Stage, header: str, path: str, status: int):
    headers = {"Content-Type": "application/x-ndjson"}
    if header:
        headers["Content-Encoding"] = "gzip"
    answer = lined.client.post(f"/v1/batches{path}", content=line("never"), headers=headers)
    assert answer.status_code == status
    assert lined.get("/v1/intents/never?pool=main").status_code == 404


def test_stop_ends_an_open_stream_with_a_word(make_stage: Callable[..., Stage], redis7, devnet, key: str):
    stage = make_stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more="ledger_timeout_s = 10.0")
    stage.start()
    lines = Lines(stage).send(line(f"{key}-1"))
    assert lines.next()["result"] == "accepted"
    assert stage.api.stop() == 0
    ended = lines.next()
    assert (ended["line"], ended["result"], ended["problem"]["code"]) == (2, "ended", "unavailable")
    lines.close()


def test_twenty_thousand_lines_take_no_more_memory_than_a_page(
    make_stage: Callable[..., Stage], redis7, devnet, key: str
):
    stage = make_stage(redis7.url, f"t{secrets.token_hex(6)}", devnet, api_more="ledger_timeout_s = 10.0")
    stage.start()
    stage.worker.kill()

    def resident_mb() -> float:
        told = Path(f"/proc/{stage.api.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", told)
        assert found is not None
        return int(found[1]) / 1024

    lines, before, read = Lines(stage), 0.0, 0
    for start in range(0, 20_000, 200):
        lines.send(b"".join(line(f"{key}-{n}") for n in range(start, start + 200)))
        while read < start + 200:
            assert lines.next()["result"] == "accepted"
            read += 1
        before = before or (resident_mb() if start >= 2_000 else 0.0)
    assert lines.end().rest() == []
    grown = resident_mb() - before
    assert grown < 20, f"the API grew by {grown:.0f} MB"
    assert resident_mb() < 150
