"""`devnet compare`: the devnet agrees with itself, and whatever a node says otherwise is named."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.devnet.process import Devnet
from txmanager.cli.devnet import app
from txmanager.devnet.compare import Node, compare, differences

Change = Callable[[int, Any], tuple[int, Any]]


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=100, accounts=2) as running:
        yield running


@contextmanager
def other_node(target: str, change: Change) -> Iterator[str]:
    """The devnet behind a proxy that answers otherwise."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._pass(self.rfile.read(int(self.headers["content-length"])))

        def do_GET(self) -> None:
            self._pass(None)

        def _pass(self, body: bytes | None) -> None:
            request = urllib.request.Request(target + self.path, data=body)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    status, told = response.status, response.read()
            except urllib.error.HTTPError as error:
                status, told = error.code, error.read()
            try:
                parsed = json.loads(told)
            except ValueError:
                parsed = None
            if isinstance(parsed, dict):
                status, parsed = change(status, parsed)
                told = json.dumps(parsed).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_node_that_agrees_differs_in_nothing(devnet: Devnet):
    found = dict(compare(Node(devnet.url), Node(f"{devnet.url}/node/1")))
    assert len(found) > 20
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_what_a_node_says_otherwise_is_named(devnet: Devnet):
    def change(status: int, told: Any) -> tuple[int, Any]:
        if "sync_info" in (told.get("result") or {}):
            told["result"]["newer"] = 1
            del told["result"]["sync_info"]["syncing"]
        if "gas_price" in (told.get("result") or {}):
            told["result"]["gas_price"] = 5
        if (told.get("error") or {}).get("cause", {}).get("name") == "UNKNOWN_ACCOUNT":
            told["error"]["cause"]["name"] = "NO_SUCH_ACCOUNT"
            status = 422
        return status, told

    with other_node(devnet.url, change) as url:
        found = {name: lines for name, lines in compare(Node(url), Node(devnet.url)) if lines}
    assert found["status"] == [
        ".result.newer: the devnet has it not",
        ".result.sync_info.syncing: the node has it not",
    ]
    assert found["gas price"] == [".result.gas_price: a number at the node, text at the devnet"]
    assert found["account that is not there"][0] == "HTTP 422 at the node, 200 at the devnet"
    assert "NO_SUCH_ACCOUNT" in found["account that is not there"][1]
    assert "final block" not in found


def test_the_command_prints_a_line_for_each_difference_and_no_api_key(devnet: Devnet):
    same = CliRunner().invoke(app, ["compare", "--rpc", devnet.url])
    assert same.exit_code == 0, same.output
    assert "0 differ" in same.output

    def change(status: int, told: Any) -> tuple[int, Any]:
        return (500, told) if "gas_price" in (told.get("result") or {}) else (status, told)

    with other_node(devnet.url, change) as url:
        differs = CliRunner().invoke(app, ["compare", "--rpc", f"{url}/?apiKey=secret"])
    assert "secret" not in differs.output
    with other_node(devnet.url, change) as url:
        differs = CliRunner().invoke(app, ["compare", "--rpc", url])
    assert differs.exit_code == 1, differs.output
    assert "gas price: HTTP 500 at the node, 200 at the devnet" in differs.output
    away = CliRunner().invoke(app, ["compare", "--rpc", "http://127.0.0.1:1"])
    assert away.exit_code == 1
    assert "cannot be asked" in away.output


def test_null_is_a_value_of_every_type_and_lists_are_compared_by_their_first_element():
    assert list(differences({"a": None, "b": [1, 2]}, {"a": {}, "b": [3]})) == []
    assert list(differences({"b": [1]}, {"b": ["x"]})) == [".b[]: a number at the node, text at the devnet"]
    assert list(differences({"b": [1]}, {"b": []})) == []
