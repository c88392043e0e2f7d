"""The JSON-RPC surface: ids, batches, bodies, paths, doors. A real server, a real node behind it."""

from __future__ import annotations

import hashlib
import json
import tracemalloc

import pytest

from tests.gateway.senders import Sender
from tests.gateway.stage import gateway

CHAIN = '"result":"0x7a69"'


@pytest.mark.parametrize(
    "number",
    ["1", "0", "-0", "1.0", "1e2", "18446744073709551616123", '"a"', '"\\u0061\\/"', '"é"', "null", "-5", '""'],
)
async def test_ids_are_echoed_as_they_were_written(number, gate):
    body = f'{{"jsonrpc":"2.0","id":{number},"method":"eth_chainId","params":[]}}'
    assert (await gate.post(body)).text == f'{{"jsonrpc":"2.0","id":{number},{CHAIN}}}'
    both = f'[{body}, {{"id" : {number} , "method":"eth_blockNumber"}},{{"id":7,"method":"eth_blockNumber"}}]'
    told = (await gate.post(both)).text
    assert told.count(f'"id":{number},') == 2, told


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("", -32700, "empty"),
        ("{", -32700, "parse error"),
        ('{"a":NaN}', -32700, "parse error"),
        ("[" * 2_000 + "]" * 2_000, -32700, "parse error"),
        ("[]", -32600, "empty batch"),
        ("1", -32600, "must be an object"),
        ('"x"', -32600, "must be an object"),
        ('{"id":1}', -32600, "method must be a string"),
        ('{"id":1,"method":7}', -32600, "method must be a string"),
        ('{"id":{},"method":"eth_chainId"}', -32600, "id must be"),
        ('{"id":true,"method":"eth_chainId"}', -32600, "id must be"),
        ('{"id":1,"jsonrpc":"1.0","method":"eth_chainId"}', -32600, 'jsonrpc must be "2.0"'),
        ('{"id":1,"method":"eth_chainId","params":"x"}', -32602, "non-array args"),
        ('{"id":1,"method":"eth_blockNumber","method":"eth_sendTransaction"}', -32600, "there twice"),
        ('{"id":1,"method":"eth_blockNumber","m\\u0065thod":"eth_sendTransaction"}', -32600, "there twice"),
        ('{"id":1,"method":"eth_getTransactionCount","params":["0x12","pending"]}', -32602, "must be an address"),
        ('{"id":1,"method":"eth_getTransactionCount","params":[]}', -32602, "missing value for required argument 0"),
        ('{"id":1,"method":"eth_sendRawTransaction","params":{"a":1}}', -32602, "missing value"),
        ('{"id":1,"method":"eth_sendRawTransaction","params":["0x1","0x2"]}', -32602, "too many arguments"),
        ("[" + ",".join(['{"id":1,"method":"eth_chainId"}'] * 1_001) + "]", -32600, "batch too large"),
        ("[" + "[]," * 200_000 + "[]]", -32600, "values"),
    ],
)
async def test_a_wrong_request_gets_a_clear_error_and_http_200(body, code, words, gate):
    reply = await gate.post(body)
    assert reply.status_code == 200
    error = reply.json()["error"]
    assert (error["code"], words in error["message"]) == (code, True), error


FORBIDDEN = """
    personal_sign admin_addPeer debug_traceTransaction miner_start engine_newPayloadV1 anvil_setBalance
    hardhat_setBalance evm_mine eth_sign eth_signTransaction eth_signTypedData_v4 eth_sendTransaction
    eth_fillTransaction eth_resend eth_sendRawTransactionSync eth_sendBundle eth_sendPrivateTransaction
    eth_subscribe eth_nothing nothing eth_sendRawTransactionConditional wallet_addEthereumChain ETH_CHAINID
"""


@pytest.mark.parametrize("method", FORBIDDEN.split())
async def test_what_is_not_allowed_does_not_exist(method, gate):
    told = (await gate.post(json.dumps({"id": 1, "method": method, "params": []}))).json()
    assert told["error"] == {"code": -32601, "message": f"the method {method} does not exist/is not available"}


async def test_a_second_spelling_of_a_member_never_reaches_the_node(gate, anvil):
    """Some nodes read names in any case, and the last one wins."""
    before = anvil.number("eth_blockNumber")
    await gate.post('{"id":1,"method":"eth_blockNumber","Method":"evm_mine","params":[]}')
    assert anvil.number("eth_blockNumber") == before


async def test_notifications_are_not_answered(gate):
    assert (await gate.post('{"method":"eth_chainId"}')).text == ""
    assert (await gate.post('{"method":"eth_blockNumber"}')).text == ""
    assert (await gate.post('[{"method":"eth_chainId"},{"method":"eth_blockNumber"}]')).text == ""
    told = (await gate.post('[{"method":"eth_chainId"},{"id":1,"method":"eth_chainId"}]')).json()
    assert [one["id"] for one in told] == [1]


async def test_a_mixed_batch_is_answered_in_its_order(gate, anvil):
    sender = Sender(anvil)
    raws = [sender.sign(nonce) for nonce in range(3)]
    calls = [
        {"id": "a", "method": "eth_blockNumber"},
        {"id": "b", "method": "eth_sendRawTransaction", "params": [raws[0]]},
        7,
        {"id": "c", "method": "eth_sendTransaction"},
        {"id": "d", "method": "eth_sendRawTransaction", "params": [raws[1]]},
        {"id": "e", "method": "eth_getBalance", "params": [sender.address, "latest"]},
        {"id": "f", "method": "eth_sendRawTransaction", "params": ["0x"]},
        {"id": "g", "method": "eth_sendRawTransaction", "params": [raws[2]]},
    ]
    told = (await gate.post(json.dumps(calls))).json()
    assert [one["id"] for one in told] == ["a", "b", None, "c", "d", "e", "f", "g"]
    assert [told[n]["result"] for n in (1, 4, 7)] == [sender.hash(raw) for raw in raws]
    assert [told[n]["error"]["code"] for n in (2, 3, 6)] == [-32600, -32601, -32602]


async def test_the_largest_batch_is_answered(gate):
    calls = [{"id": n, "method": "eth_blockNumber" if n % 2 else "eth_chainId"} for n in range(1_000)]
    told = (await gate.post(json.dumps(calls))).json()
    assert [one["id"] for one in told] == list(range(1_000))
    assert all("result" in one for one in told)


async def test_body_rules(anvil):
    async with gateway(anvil, max_body_bytes=2_048) as gate:
        call = '{"id":1,"method":"eth_chainId"}'
        assert (await gate.http.post(gate.url, content=call, headers={"content-type": "text/plain"})).status_code == 415
        assert (await gate.post(call, content_encoding="gzip")).status_code == 415
        assert (await gate.post(call + " " * 2_048)).status_code == 413
        assert (await gate.post(call, host="evil.example")).status_code == 403
        assert (await gate.http.get(gate.url)).status_code == 405
        assert (await gate.http.put(gate.url)).status_code == 405
        for path in ("/", "/anvil", "/31337", "/31337/"):
            assert CHAIN in (await gate.post(call, path)).text
        assert (await gate.post(call, "/mainnet")).status_code == 404
        assert (await gate.http.get(gate.url + "/healthz")).status_code == 200
        assert (await gate.http.get(gate.url + "/readyz")).json()["status"] == "ok"
        assert "txmanager_gateway_calls_total" in (await gate.http.get(gate.url + "/metrics")).text


async def test_tokens_by_header_or_path_and_never_in_a_log(anvil, capfd):
    secret = "s3cr3t-of-a-wallet"
    tokens = [{"name": "wallet", "sha256": hashlib.sha256(secret.encode()).hexdigest()}]
    async with gateway(anvil, tokens=tokens) as gate:
        call = '{"id":1,"method":"eth_chainId"}'
        for path in (f"/k/{secret}", f"/k/{secret}/", f"/k/{secret}/anvil", f"/k/{secret}/31337"):
            assert CHAIN in (await gate.post(call, path)).text
        assert CHAIN in (await gate.post(call, authorization=f"Bearer {secret}")).text
        for path in ("/", "/anvil", "/k/wrong", "/k//", "/k/"):
            reply = await gate.post(call, path)
            assert reply.status_code == 401
            assert "error" in reply.json()
        assert (await gate.post("{", f"/k/{secret}")).json()["error"]["code"] == -32700
    said = capfd.readouterr()
    assert secret not in said.out + said.err


async def test_cors_is_an_allow_list(anvil):
    async with gateway(anvil, cors=["https://app.example.com"]) as gate:
        call = '{"id":1,"method":"eth_chainId"}'
        reply = await gate.post(call, origin="https://app.example.com")
        assert reply.headers["access-control-allow-origin"] == "https://app.example.com"
        assert "access-control-allow-origin" not in (await gate.post(call, origin="https://evil.example.com")).headers
        asked = await gate.http.options(gate.url, headers={"origin": "https://app.example.com"})
        assert asked.status_code == 204
        assert "content-type" in asked.headers["access-control-allow-headers"]


async def test_rates_of_an_address_and_of_a_sender(anvil):
    call = '{"id":1,"method":"eth_chainId"}'
    async with gateway(anvil, per_second={"client": 5}) as gate:
        replies = [await gate.post(call) for _ in range(20)]
        refused = [reply for reply in replies if reply.status_code == 429]
        assert refused
        assert refused[0].json()["error"]["code"] == -32005
        assert "retry-after" not in refused[0].headers
        # behind a trusted proxy the client is who the proxy says, and without one nobody's word counts
        statuses = [(await gate.post(call, x_forwarded_for=f"1.2.3.{n}")).status_code for n in range(20)]
        assert 429 in statuses
    async with gateway(anvil, per_second={"client": 5}, trusted_proxies=["127.0.0.0/8"]) as gate:
        statuses = [(await gate.post(call, x_forwarded_for=f"9.9.9.9, 1.2.3.{n}")).status_code for n in range(20)]
        assert statuses == [200] * 20
        statuses = [(await gate.post(call, x_forwarded_for=f"{n}.9.9.9, 1.1.1.1")).status_code for n in range(20)]
        assert 429 in statuses
    async with gateway(anvil, per_second={"sender": 2}) as gate:
        sender, other = Sender(anvil), Sender(anvil)
        told = [await gate.post(_send(sender.sign(nonce))) for nonce in range(6)]
        assert [one.status_code for one in told] == [200] * 6
        assert -32005 in [one.json().get("error", {}).get("code") for one in told]
        assert "result" in (await gate.post(_send(other.sign(0)))).json()


def _send(raw: str) -> str:
    return json.dumps({"id": 1, "method": "eth_sendRawTransaction", "params": [raw]})


async def test_a_batch_is_charged_for_each_of_its_calls(anvil):
    async with gateway(anvil, per_second={"client": 5}) as gate:
        assert (await gate.post(json.dumps([{"id": n, "method": "eth_chainId"} for n in range(50)]))).status_code == 200
        assert (await gate.post('{"id":1,"method":"eth_chainId"}')).status_code == 429


async def test_allow_opens_reads_only(anvil):
    async with gateway(anvil, allow=["debug_traceTransaction"]) as gate:
        told = (await gate.post('{"id":1,"method":"debug_traceTransaction","params":["0x' + "0" * 64 + '"]}')).json()
        assert told.get("error", {}).get("code") != -32601
    for method in ("eth_sendTransaction", "eth_sign", "personal_sign", "eth_sendBundle", "anvil_mine", "evm_mine"):
        with pytest.raises(ValueError, match="only reads can be allowed"):
            async with gateway(anvil, allow=[method]):
                pass


async def test_an_answer_that_is_too_large_costs_bounded_memory(anvil, node_that_answers):
    """The node would answer 80 MB; no more than the limit is ever held."""
    huge = node_that_answers(b'{"jsonrpc":"2.0","id":1,"result":"' + b"f" * 80_000_000 + b'"}')
    async with gateway(huge, max_answer_bytes=1 << 20) as gate:
        tracemalloc.start()
        reply = await gate.post('{"id":1,"method":"eth_getLogs","params":[{}]}')
        batch = await gate.post('[{"id":1,"method":"eth_getLogs"},{"id":2,"method":"eth_getLogs"}]')
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert reply.json()["error"]["code"] == -32003
    assert [one["error"]["code"] for one in batch.json()] == [-32003, -32003]
    assert peak < 12 << 20, peak


async def test_hostile_requests_cost_bounded_memory(gate):
    bodies = ["[" * 1_000_000, "[" + "{}," * 30_000 + "{}]", '{"id":' + "9" * 1_000_000 + ',"method":"eth_chainId"}']
    tracemalloc.start()
    for body in bodies:
        await gate.post(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20, peak
    assert CHAIN in (await gate.post('{"id":1,"method":"eth_chainId"}')).text


async def test_a_node_that_is_away_is_said_and_nothing_breaks(node_that_answers):
    gone = node_that_answers(b"<html>bad gateway</html>", status=502)
    async with gateway(gone) as gate:
        told = (await gate.post('{"id":5,"method":"eth_blockNumber"}')).json()
        assert (told["id"], told["error"]["code"]) == (5, -32603)
        told = (
            await gate.post('{"id":5,"method":"eth_getTransactionCount","params":["0x' + "11" * 20 + '","pending"]}')
        ).json()
        assert told["error"] == {"code": -32603, "message": "the node does not answer; try again"}
