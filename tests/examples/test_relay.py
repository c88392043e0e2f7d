"""The example relay, as uvicorn serves it, in front of a running `txmanager up`."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.servers import free_port
from tests.servers.processes import end, make_folder, remove_folder, spawn
from tests.stack.running import QUICK, ROOT, Up
from tests.waiting import until_sync
from txmanager.chains.near import PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.transaction import sign_delegate
from txmanager.signing import Ed25519Signer

PUBLIC_KEY = f"ed25519:{'1' * 31}2"


class Relay:
    def __init__(self, stack: Up, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / f"relay-{self.port}.log"
        environment = os.environ | {
            "TXMANAGER_URL": f"http://127.0.0.1:{stack.port}",
            "TXMANAGER_TOKEN": (stack.data / "token").read_text(),
            "PYTHONPATH": str(ROOT),
        }
        argv = [sys.executable, "-m", "uvicorn", "relay:app", "--port", str(self.port), "--app-dir", "docs/examples"]
        self.process = spawn(argv, self._log, cwd=ROOT, env=environment)

    def ready(self) -> Relay:
        until_sync(lambda: "Uvicorn running" in self._log.read_text(), 30, what="the relay being ready")
        return self

    def ask(self, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture(scope="module")
def stack() -> Iterator[Up]:
    folder = make_folder("relay")
    running = Up(folder, *QUICK, "--workers", "1")
    try:
        yield running.ready()
    finally:
        running.end(signal.SIGTERM)
        remove_folder(folder)


@pytest.fixture(scope="module")
def relays(stack) -> Iterator[list[Relay]]:
    """Two processes: a retry may meet the other one."""
    started = [Relay(stack, stack.data.parent) for _ in range(2)]
    yield [relay.ready() for relay in started]
    for relay in started:
        end(relay.process)


def test_a_retry_that_meets_another_process_gets_the_same_account(relays):
    asked = {"account_id": "alice", "public_key": PUBLIC_KEY}
    status, first = relays[0].ask("/create_account", asked)
    assert (status, first["status"]) == (200, "done")
    assert relays[1].ask("/create_account", asked) == (200, first)
    assert relays[1].ask(f"/status/{first['key']}") == (200, first)


def test_a_users_delegate_is_paid_for_once(relays, stack):
    user = Ed25519Signer.generate()
    status, made = relays[0].ask("/create_account", {"account_id": "bob", "public_key": user.public_key})
    assert (status, made["status"]) == (200, "done"), made
    delegate = sign_delegate(
        act.DelegateAction(
            sender_id="bob.dev0.near",
            receiver_id="counter.near",
            actions=(act.FunctionCall("increment", b"{}", 10**13, 0),),
            nonce=nonce_of(stack, "bob.dev0.near", user.public_key) + 1,
            max_block_height=10**12,
            public_key=PublicKey.parse(user.public_key),
        ),
        user,
    )
    asked = {"signed_delegate_action": base64.b64encode(delegate.encode()).decode()}
    status, first = relays[0].ask("/relay", asked)
    assert (status, first["status"]) == (200, "done"), first
    assert relays[1].ask("/relay", asked) == (200, first)


def nonce_of(stack: Up, account: str, public_key: str) -> int:
    [rpc] = tomllib.loads((stack.data / "txmanager.toml").read_text())["networks"]["localnet"]["rpc"]
    params = {
        "request_type": "view_access_key",
        "finality": "final",
        "account_id": account,
        "public_key": public_key,
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "query", "params": params}).encode()
    with urlopen(Request(rpc["url"], body, {"Content-Type": "application/json"}), timeout=10) as reply:
        return int(json.load(reply)["result"]["nonce"])


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/create_account", {"account_id": "a.b", "public_key": PUBLIC_KEY}, 400, "account_id"),
        ("/create_account", {"account_id": "carol", "public_key": "nonsense"}, 422, "public_key"),
        ("/relay", {}, 400, "signed_delegate_action"),
        ("/relay", {"signed_delegate_action": "?"}, 422, "signed_delegate"),
        ("/status/nobody", None, 404, "nothing was asked"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(relays, path, body, status, words):
    got, told = relays[0].ask(path, body)
    assert got in (status, 400), told
    assert words in str(told["error"])
