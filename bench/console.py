"""What open console pages cost an idle API: processor time of its process with no page and with many.

    python -m bench.console [--pages 50] [--seconds 20]

A page is what the overview is: a session, a stream, and the few things it asks for now and then. The rounds alternate,
so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import socket
import statistics
import time
from pathlib import Path

from tests.api.stage import Stage, bearer
from tests.devnet.process import Devnet
from tests.servers import DURABLE, Server

_TICK = os.sysconf("SC_CLK_TCK")


def used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


ASKED = {"/v1/intents?status=held&limit=50": 15, "/readyz": 30, "/v1/webhooks/dead": 30, "/v1/purses": 60}
"""What an overview asks for, and every how many seconds."""


def log_in(stage: Stage) -> dict[str, str]:
    code = stage.client.post("/v1/sessions/codes", headers=bearer("ops")).json()["code"]
    return {"Authorization": f"Bearer {stage.client.post('/v1/sessions', json={'code': code}).json()['token']}"}


def open_stream(stage: Stage, session: dict[str, str]) -> socket.socket:
    page = socket.create_connection(("127.0.0.1", stage.port))
    head = "".join(f"{name}: {value}\r\n" for name, value in session.items())
    page.sendall(f"GET /v1/live HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode())
    page.recv(65536)
    return page


def ask_as_pages_do(stage: Stage, sessions: list[dict[str, str]], seconds: float) -> None:
    """Each page's questions, spread over time."""
    until, turns = time.monotonic() + seconds, itertools.cycle(sessions or [{}])
    due = {path: time.monotonic() for path in ASKED}
    while (now := time.monotonic()) < until:
        for path, every_s in ASKED.items():
            while sessions and due[path] <= now:
                due[path] += every_s / len(sessions)
                stage.client.get(path, headers=next(turns))
        time.sleep(0.02)


def measure(stage: Stage, pages: int, seconds: float) -> float:
    """Of one core."""
    sessions = [log_in(stage) for _ in range(pages)]
    streams = [open_stream(stage, session) for session in sessions]
    try:
        ask_as_pages_do(stage, sessions, 3)  # the first looks are over
        began, before = time.monotonic(), used_s(stage.api.pid)
        ask_as_pages_do(stage, sessions, seconds)
        return (used_s(stage.api.pid) - before) / (time.monotonic() - began)
    finally:
        for stream in streams:
            stream.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    told = parser.parse_args()
    with (
        Server(config=DURABLE) as server,
        Devnet(block_ms=1000, accounts=8, keys=8) as devnet,
        Stage(server.url, f"t{secrets.token_hex(4)}", devnet, lanes=4, spare=False) as stage,
    ):
        stage.start()
        shares: dict[int, list[float]] = {0: [], told.pages: []}
        for _ in range(told.rounds):
            for pages, found in shares.items():
                found.append(measure(stage, pages, told.seconds))
        idle, open_share = (statistics.median(found) for found in shares.values())
        print(f"no page: {idle:.2%} of a core; {told.pages} pages: {open_share:.2%}; they cost {open_share - idle:.2%}")


if __name__ == "__main__":
    main()
