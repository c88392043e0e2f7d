"""The judge itself: a node that lets bursts through, or a checker that sees nothing, would prove nothing."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.gateway.senders import Sender
from tests.gateway.stage import gateway
from tests.gateway.strict import Strict, check, judge
from tests.waiting import until


async def send(http: httpx.AsyncClient, url: str, raw: str) -> dict:
    body = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw]}
    return (await http.post(url, json=body)).json()


async def burst(url: str, sender: Sender, size: int) -> int:
    """How many of a burst were refused."""
    async with httpx.AsyncClient(timeout=30.0) as http:
        answers = await asyncio.gather(*(send(http, url, sender.sign(nonce)) for nonce in range(size)))
    return sum("error" in answer for answer in answers)


async def test_direct_bursts_fail_at_least_half_of_the_time_and_none_through_the_gateway(strict: Strict):
    before = len(strict.log())
    failed = [await burst(strict.url, Sender(strict.anvil), 5) for _ in range(20)]
    direct = strict.log()[before:]
    assert sum(bool(refused) for refused in failed) >= 10, failed
    assert judge(direct).wrong_nonces >= sum(failed) > 0
    senders = [Sender(strict.anvil) for _ in range(20)]
    async with gateway(strict) as gate:
        assert [await burst(gate.url, sender, 5) for sender in senders] == [0] * 20
    told = check(strict.log()[before + len(direct) :], [])
    assert told.taken == {sender.address: list(range(5)) for sender in senders}


async def test_one_by_one_it_takes_everything_and_shows_it_late(make_strict):
    strict = make_strict(lag=(1.0, 1.0))
    sender = Sender(strict.anvil)
    async with httpx.AsyncClient(timeout=30.0) as http:
        hashes = [(await send(http, strict.url, sender.sign(nonce)))["result"] for nonce in range(3)]
        assert strict.count(sender.address) == 0, "the count lags"
        assert strict.rpc("eth_getTransactionReceipt", hashes[0]) is None
        again = await send(http, strict.url, sender.sign(0))
    assert "already known" in again["error"]["message"]
    told = check(strict.log(), hashes, repeats=1)
    assert told.taken == {sender.address: [0, 1, 2]}
    assert told.repeats == 1


async def test_a_block_is_shown_when_everything_in_it_can_be_looked_up(make_strict):
    strict = make_strict(lag=(1.0, 1.0))
    sender, before = Sender(strict.anvil), strict.number("eth_blockNumber")
    async with httpx.AsyncClient(timeout=30.0) as http:
        hash = (await send(http, strict.url, sender.sign(0)))["result"]
    block = strict.anvil.rpc("eth_getBlockByNumber", "latest", False)
    assert hash in block["transactions"]
    if strict.rpc("eth_getTransactionReceipt", hash) is None:  # a busy machine may take longer than the lag
        shown = strict.number("eth_blockNumber")
        assert strict.rpc("eth_getTransactionReceipt", hash) is not None or before <= shown < int(block["number"], 16)
    await until(lambda: strict.rpc("eth_getBlockByHash", block["hash"], False) is not None, 30)
    assert strict.rpc("eth_getTransactionReceipt", hash) is not None
    assert strict.number("eth_blockNumber") >= int(block["number"], 16)


async def test_it_can_hang_after_taking(make_strict):
    strict = make_strict(lag=(0.0, 0.0))
    sender = Sender(strict.anvil)
    strict.hang_next(1)
    async with httpx.AsyncClient(timeout=1.0) as http:
        with pytest.raises(httpx.ReadTimeout):
            await send(http, strict.url, sender.sign(0))
    assert judge(strict.log()).taken == {sender.address: [0]}


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([{"what": "wrong_nonce"}], "wrong nonce"),
        ([{"what": "taken", "sender": "a", "nonce": n, "hash": str(n)} for n in (0, 2)], "out of order"),
        ([], "never reached the node"),
        ([{"what": "repeat"}, {"what": "taken", "sender": "a", "nonce": 0, "hash": "0x1"}], "repeats"),
    ],
)
def test_the_checker_sees_each_fault(log, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check(log, ["0x1"] if not log or log[0]["what"] == "repeat" else [])
