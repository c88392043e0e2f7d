"""HTTP itself: keep-alive, pipelining in order, any bytes answered, faults that only a transport can have."""

from __future__ import annotations

import base64
import json
import socket
import time

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.devnet.process import transfer
from tests.waiting import until_sync


class Wire:
    """A raw connection."""

    def __init__(self, devnet):
        self.socket = socket.create_connection(("127.0.0.1", devnet.port), timeout=5)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, raw):
        self.socket.sendall(raw)

    def answer(self):
        """Status and body of the next answer; None when the server hung up."""
        line = self.file.readline()
        if not line:
            return None
        length = 0
        while (header := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return int(line.split()[1]), self.file.read(length)


def request(body, path="/", extra=b""):
    head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % path.encode()
    return head + extra + b"content-length: %d\r\n\r\n%s" % (len(body), body)


def rpc_body(method, params=(), request_id=1):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": list(params)}).encode()


def test_pipelined_requests_are_answered_in_order_though_the_first_waits(devnet):
    """A send that waits for finality holds the answers of those behind it, never swaps them."""
    account = devnet.account(2)
    _, raw = devnet.sign(account, "dev3.near", transfer())
    waiting = {"signed_tx_base64": raw, "wait_until": "FINAL"}
    first = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "send_tx", "params": waiting}).encode()
    rest = [request(rpc_body("gas_price", [None], n)) for n in range(1, 40)]
    with Wire(devnet) as wire:
        wire.send(request(first) + b"".join(rest))
        ids = [json.loads(wire.answer()[1])["id"] for _ in range(40)]
    assert ids == list(range(40))


def test_a_connection_stays_open_and_may_be_cut_anywhere(devnet):
    raw = request(rpc_body("status"))
    with Wire(devnet) as wire:
        for cut in (1, 20, 60, len(raw) - 1):
            wire.send(raw[:cut])
            wire.send(raw[cut:])
            assert wire.answer()[0] == 200


def test_connection_close_is_honoured(devnet):
    with Wire(devnet) as wire:
        wire.send(request(rpc_body("status"), extra=b"connection: close\r\n"))
        assert wire.answer()[0] == 200
        assert wire.answer() is None


def test_chunked_bodies_and_expect_continue(devnet):
    body = rpc_body("status")
    with Wire(devnet) as wire:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        wire.send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert wire.answer()[0] == 200
        wire.send(request(body, extra=b"expect: 100-continue\r\n"))
        assert wire.answer()[0] == 100
        assert wire.answer()[0] == 200


def test_a_body_or_a_head_beyond_the_limit_is_refused(devnet):
    with Wire(devnet) as wire:
        wire.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 20000000\r\n\r\n")
        assert wire.answer()[0] == 413
        assert wire.answer() is None
    with Wire(devnet) as wire:
        wire.send(b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 600_000)  # a head without an end
        assert wire.answer()[0] == 413


def test_one_connection_may_carry_far_more_than_one_request_may(devnet):
    body = rpc_body("gas_price", [None])
    with Wire(devnet) as wire:
        for _ in range(20):
            wire.send(request(body) * 100)
            assert {wire.answer()[0] for _ in range(100)} == {200}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("PUT", "/", 405), ("POST", "/node/99", 404), ("POST", "/node/x", 404),
     ("GET", "/health", 200), ("OPTIONS", "/", 204), ("GET", "/node/1/status", 200), ("GET", "/any/status", 200)],
)  # fmt: skip
def test_paths(devnet, method, path, status):
    assert httpx.request(method, devnet.url + path).status_code == status


anything = st.one_of(
    st.binary(max_size=300),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
)
METHODS = ["block", "chunk", "query", "tx", "send_tx", "broadcast_tx_async", "gas_price", "EXPERIMENTAL_tx_status"]
param_names = ["block_id", "finality", "request_type", "account_id", "public_key", "tx_hash", "sender_account_id",
               "signed_tx_base64", "wait_until", "chunk_id", "shard_id", "method_name", "args_base64"]  # fmt: skip
values = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2**65), st.text(max_size=50), st.lists(st.integers(), max_size=3),
    st.sampled_from(["NONE", "final", "view_account", "call_function", "view_access_key", "near", "1" * 32]),
)  # fmt: skip
shaped = st.builds(
    lambda method, params: json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode(),
    st.sampled_from(METHODS),
    st.one_of(st.lists(values, max_size=3), st.dictionaries(st.sampled_from(param_names), values, max_size=5)),
)
fuzz = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzz
@given(body=st.one_of(anything, shaped))
def test_any_body_gets_a_protocol_shaped_answer(devnet, body):
    with Wire(devnet) as wire:
        wire.send(request(body))
        status, answer = wire.answer()
        if answer.startswith(b"Failed to parse the request body as JSON: "):
            assert status == 400
            return
        told = json.loads(answer)
        assert told["jsonrpc"] == "2.0"
        assert ("error" in told) != ("result" in told)
        if "error" in told:
            assert set(told["error"]) == {"name", "cause", "code", "message", "data"}
            assert told["error"]["cause"]["name"] != "INTERNAL_ERROR"
        assert status in (200, 400, 408)


@fuzz
@given(raw=st.binary(min_size=1, max_size=400))
def test_bytes_that_are_not_http_are_answered_or_cut_off_and_hurt_nobody(devnet, raw):
    with Wire(devnet) as wire:
        try:
            wire.send(raw + b"\r\n\r\n")
            wire.socket.shutdown(socket.SHUT_WR)
            answer = wire.answer()
            assert answer is None or answer[0] >= 400
        except ConnectionResetError:
            pass
    assert devnet.rpc("status", [])


@fuzz
@given(data=st.data())
def test_a_damaged_transaction_is_refused_or_unknown_never_a_crash(devnet, data):
    account = devnet.account(4)
    _, good = devnet.sign(account, "dev5.near", transfer())
    raw = bytearray(base64.b64decode(good))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    encoded = base64.b64encode(bytes(raw[:cut] if cut % 3 == 0 else raw)).decode()
    response = devnet.post("send_tx", {"signed_tx_base64": encoded, "wait_until": "INCLUDED"})
    told = response.json()
    if "error" in told:
        assert told["error"]["cause"]["name"] in ("PARSE_ERROR", "INVALID_TRANSACTION")


# faults of the transport


def test_rate_limit_and_gateway_errors_speak_no_json(devnet):
    devnet.fault("rate_limit", count=1)
    assert devnet.post("status", []).status_code == 429
    devnet.fault("http_error", count=1, status=503)
    response = devnet.post("status", [])
    assert response.status_code == 503
    assert response.headers["content-type"] == "text/html"
    assert devnet.rpc("status", [])


def test_an_error_before_accepting_accepts_nothing(devnet):
    account = devnet.account(6)
    tx_hash, raw = devnet.sign(account, "dev7.near", transfer())
    devnet.fault("error", method="broadcast_tx_async", count=1)
    response = devnet.post("broadcast_tx_async", [raw])
    assert response.status_code == 500
    assert response.json()["error"]["name"] == "INTERNAL_ERROR"
    devnet.admin("/advance", {"blocks": 5})
    assert not devnet.landed(tx_hash, account["account_id"])


@pytest.mark.parametrize("kind", ["timeout", "disconnect"])
def test_a_hidden_answer_does_not_undo_the_acceptance(devnet, kind):
    account = devnet.account(7)
    tx_hash, raw = devnet.sign(account, "dev8.near", transfer())
    devnet.fault(kind, method="broadcast_tx_async", count=1)
    if kind == "timeout":
        response = devnet.post("broadcast_tx_async", [raw])
        assert response.status_code == 408
        assert response.json()["error"]["cause"]["name"] == "TIMEOUT_ERROR"
    else:
        with pytest.raises(httpx.RemoteProtocolError):
            devnet.post("broadcast_tx_async", [raw])
    devnet.until_landed(tx_hash, account["account_id"])


def test_a_timeout_takes_as_long_as_it_is_told(devnet):
    devnet.fault("timeout", count=1, ms=300)
    started = time.monotonic()
    assert devnet.post("status", []).status_code == 408
    assert time.monotonic() - started >= 0.3


def test_a_dropped_transaction_times_the_waiting_request_out(devnet):
    devnet.fault("drop", count=1)
    _, raw = devnet.sign(devnet.account(8), "dev9.near", transfer())
    assert devnet.post("send_tx", {"signed_tx_base64": raw}).status_code == 408


def test_an_untracked_shard_answers_transactions_only(devnet):
    devnet.fault("untracked", node=1)
    account = devnet.account(0)
    params = {"tx_hash": "1" * 32, "sender_account_id": account["account_id"], "wait_until": "NONE"}
    assert devnet.error("tx", params, "/node/1")["cause"]["name"] == "DOES_NOT_TRACK_SHARD"
    assert devnet.error("tx", params, "/node/0")["cause"]["name"] == "UNKNOWN_TRANSACTION"
    assert devnet.rpc("block", {"finality": "final"}, "/node/1")


# the admin route


def test_nodes_may_lag_and_the_balancer_shows_it(devnet):
    devnet.admin("/advance", {"blocks": 20})
    devnet.fault("lag", node=1, blocks=15)
    assert devnet.head(path="/node/0")["height"] - devnet.head(path="/node/1")["height"] >= 10
    heights = [devnet.head(path="/any")["height"] for _ in range(20)]
    assert max(heights) - min(heights) >= 10


def test_stall_stops_the_chain_until_cleared(devnet):
    devnet.fault("stall")
    height = devnet.head()["height"]
    account = devnet.account(9)
    tx_hash, raw = devnet.sign(account, "dev8.near", transfer())
    assert devnet.post("send_tx", {"signed_tx_base64": raw}).status_code == 408  # waited in vain
    assert devnet.head()["height"] == height
    devnet.clear_faults()
    devnet.until_landed(tx_hash, account["account_id"])


def test_advance_expires_and_reorg_orphans_over_http(devnet):
    height = devnet.head()["height"]
    assert devnet.admin("/advance", {"blocks": 50})["head"] >= height + 50
    [orphan] = devnet.admin("/reorg", {"depth": 1})["orphaned"]
    assert devnet.error("block", {"block_id": orphan})["cause"]["name"] == "UNKNOWN_BLOCK"


def test_foreign_use_over_http(devnet):
    account = devnet.account(10)
    before = devnet.nonce(account)
    names = {"account_id": account["account_id"], "public_key": account["public_key"]}
    [tx_hash] = devnet.admin("/foreign", {**names, "by": 5})["hashes"]
    devnet.until_landed(tx_hash, account["account_id"])
    assert until_sync(lambda: devnet.nonce(account) == before + 5)


def test_the_admin_route_explains_refusals_and_wants_json(devnet):
    url = devnet.url + "/admin"
    told = httpx.post(url + "/faults", json={"kind": "nonsense"})
    assert told.status_code == 400
    assert "drop" in told.json()["error"]
    assert httpx.post(url + "/faults", content=b"{").status_code == 415
    assert httpx.post(url + "/faults", content=b"{", headers={"content-type": "application/json"}).status_code == 400
    assert httpx.post(url + "/advance", json={"blocks": "x"}).status_code == 400
    assert httpx.post(url + "/reorg", json={"depth": 9}).status_code == 400
    assert httpx.post(url + "/foreign", json={"account_id": "x", "public_key": "y"}).status_code == 400
    assert httpx.post(url + "/nothing", json={}).status_code == 404
    assert httpx.delete(url + "/faults/x").status_code == 400
    assert "access-control-allow-origin" not in told.headers
    assert len(httpx.get(url + "/accounts").json()) == 15
