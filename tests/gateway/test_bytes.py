"""Bytes in, bytes out: what the node answers is what the caller gets, down to the last byte, error data included."""

from __future__ import annotations

import asyncio
import json
import random

import httpx
import pytest

from tests.gateway.senders import Sender
from tests.gateway.stage import gateway
from txmanager.gateway.methods import PASSED_ON
from txmanager.rpc.connection import Response, connect

# Runtime code that reverts with 4 bytes of data.
REVERTS = "0x" + "63deadbeef" + "60e01b" + "600052" + "6004" + "6000" + "fd"
# A fee history of 2^160 blocks ends anvil, and filters get a number each.
ALIVE = sorted(name for name in PASSED_ON - {"eth_feeHistory", "eth_simulateV1"} if "ilter" not in name)


def value(rng: random.Random, addresses: list[str], hashes: list[str]) -> object:
    pick = rng.randrange(12)
    if pick < 3:
        return rng.choice(addresses)
    if pick < 5:
        return rng.choice(["latest", "pending", "earliest", "safe", "finalized", "0x0", "0x1", "0xfff"])
    if pick < 7:
        return rng.choice(hashes)
    if pick == 7:
        return {"to": rng.choice(addresses), "data": rng.choice(["0x", "0x1234", "0xé", "nothex"])}
    if pick == 8:
        return {"address": rng.choice(addresses), "fromBlock": "0x0", "topics": [None, ["0x" + "0" * 64]]}
    if pick == 9:
        return rng.choice([True, False, None, 7, -1, 1.5, "", "x" * 50, [], {}])
    if pick == 10:
        return hex(rng.getrandbits(rng.choice([8, 64, 256, 300])))
    return rng.choice(['"quoted" \\ back\u2028slash', "tab\t", "\u00e9"])


def body(rng: random.Random, addresses: list[str], hashes: list[str]) -> bytes:
    call: dict[str, object] = {"jsonrpc": "2.0", "id": rng.choice([1, 2**40, "a", "é"]), "method": rng.choice(ALIVE)}
    if rng.random() < 0.9:
        call["params"] = [value(rng, addresses, hashes) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
    members = list(call.items())
    rng.shuffle(members)
    spaces = rng.choice([(",", ":"), (", ", ": "), (" ,\n", "\t:")])
    return json.dumps(dict(members), separators=spaces, ensure_ascii=rng.random() < 0.5).encode()


def _post(content: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(content) + content


async def test_ten_thousand_random_requests_are_answered_as_the_node_answers_them(make_anvil):
    anvil = make_anvil("--no-mining", "--timestamp", "1700000000")
    sender = Sender(anvil)
    hashes = [anvil.rpc("eth_sendRawTransaction", sender.sign(nonce)) for nonce in range(2)]
    anvil.rpc("evm_mine")
    addresses = [sender.address, "0x" + "11" * 20, "0x" + "0" * 40]
    rng = random.Random(20)
    bodies = [body(rng, addresses, [*hashes, "0x" + "ab" * 32]) for _ in range(10_000)]
    async with gateway(anvil) as gate:
        ports = [int(url.rpartition(":")[2]) for url in (gate.url, anvil.url)]

        async def compare(part: list[bytes]) -> list[tuple[bytes, Response, Response]]:
            """Pipelined on one connection to each: what ten thousand HTTP clients would cost is not the question."""
            ours, theirs = [await connect("127.0.0.1", port, None, None, "", 1 << 20, 30.0) for port in ports]
            wrong = []
            for start in range(0, len(part), 25):
                some = part[start : start + 25]
                both = [connection.request_many([_post(one) for one in some]) for connection in (ours, theirs)]
                told = [await asyncio.gather(*answers) for answers in both]
                wrong += [three for three in zip(some, *told, strict=True) if three[1] != three[2]]
            return wrong

        found = await asyncio.gather(*(compare(bodies[n::4]) for n in range(4)))
    wrong = [one for part in found for one in part]
    assert not wrong, f"{len(wrong)} differ: {wrong[0]}"


async def test_the_data_of_a_revert_arrives_as_it_is(gate, anvil):
    where = "0x" + "77" * 20
    anvil.rpc("anvil_setCode", where, REVERTS)
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [{"to": where}, "latest"]}
    told = await gate.post(json.dumps(call))
    assert told.json()["error"]["data"] == "0xdeadbeef"
    async with httpx.AsyncClient() as direct:
        assert told.content == (await direct.post(anvil.url, json=call)).content
    batch = (await gate.post(json.dumps([{**call, "id": "é"}, {**call, "id": 2}]))).json()
    assert [(one["id"], one["error"]["data"]) for one in batch] == [("é", "0xdeadbeef"), (2, "0xdeadbeef")]


@pytest.mark.parametrize("tag", ["latest", "earliest", "safe", "finalized", "0x0", {"blockNumber": "0x0"}, None])
async def test_counts_of_other_blocks_are_the_nodes(gate, anvil, tag):
    params = [Sender().address] if tag is None else [Sender().address, tag]
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_getTransactionCount", "params": params}
    async with httpx.AsyncClient() as direct:
        assert (await gate.post(json.dumps(call))).content == (await direct.post(anvil.url, json=call)).content


async def test_filters_live_on_one_node(gate):
    number = await gate.ask("eth_newBlockFilter")
    assert await gate.ask("eth_getFilterChanges", number) == []
    assert await gate.ask("eth_uninstallFilter", number) is True
