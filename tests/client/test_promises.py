"""The Python client keeps every promise of the table, in a world where answers get lost."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.api.conftest import devnet  # noqa: F401  (fixture)
from tests.api.stage import KEY, token
from tests.client.promises import PROMISES, RESIDENT
from tests.client.resident import ResidentWorld
from tests.client.world import SECRET, PythonWorld, World
from tests.devnet.process import Devnet
from txmanager.client import (
    AsyncClient,
    ClientError,
    IntentFailed,
    InvalidRequest,
    KeyReused,
    NotFound,
    NotPermitted,
    StillWaiting,
    Unreachable,
    verify_webhook,
)

KEPT: dict[str, Callable[[World], Awaitable[None]]] = {}
BEYOND = 2**53 + 1


def keeps(promise: Callable[[World], Awaitable[None]]) -> Callable[[World], Awaitable[None]]:
    KEPT[promise.__name__] = promise
    return promise


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, devnet: Devnet) -> Iterator[World]:  # noqa: F811
    if request.param == "resident":
        made: World = ResidentWorld(devnet)
    else:
        made = PythonWorld(request.getfixturevalue("redis7").url, f"t{secrets.token_hex(6)}", devnet)
    with made as running:
        yield running


def test_every_promise_is_kept_by_the_python_client():
    assert list(KEPT) == list(PROMISES)


@pytest.mark.parametrize("world", ["python"], indirect=True)
@pytest.mark.parametrize("name", PROMISES)
async def test_python_keeps(world: World, name: str):
    await KEPT[name](world)


@pytest.mark.parametrize("world", ["resident"], indirect=True)
@pytest.mark.parametrize("name", RESIDENT)
async def test_python_keeps_with_resident_lanes(world: World, name: str):
    await KEPT[name](world)


def client(world: World, place: str = "direct", by: str = "all", **options: Any) -> AsyncClient:
    return AsyncClient(world.places()[place], token=token(by), pool="main", **options)


def transfer(amount: int | str = 1, receiver: str = "dev1.near") -> dict[str, Any]:
    return {"receiver_id": receiver, "amount": str(amount)}


def new_key() -> str:
    return f"p-{secrets.token_hex(8)}"


async def told(world: World, question: str, **how: Any) -> Any:
    return await asyncio.to_thread(getattr(world, question), **how)


class Gain:
    """How much an account of its own has received."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.account = f"g{secrets.token_hex(6)}.{world.stage.account_id}"

    async def start(self) -> Gain:
        async with client(self._world) as direct:
            assert (await direct.create_account(self.account, KEY, initial_balance=10**24, wait_s=20)).done
        self._before = int(await told(self._world, "balance", account_id=self.account))
        return self

    async def total(self) -> int:
        return int(await told(self._world, "balance", account_id=self.account)) - self._before


@keeps
async def webhook(world: World) -> None:
    async with client(world) as direct:
        record = await direct.submit("near.transfer", transfer(), key=new_key(), wait_s=20)
    got = await told(world, "delivery", key=record.idempotency_key)
    signature, body = got["signature"], got["body"].encode()
    assert verify_webhook(SECRET, signature, body)
    assert not verify_webhook("another", signature, body)
    assert not verify_webhook(SECRET, signature, body + b" ")
    assert not verify_webhook(SECRET, signature, body, now=time.time() + 301)
    at = int(signature.partition(",")[0].removeprefix("t="))
    assert not verify_webhook(SECRET, signature.replace(str(at), str(at + 1)), body)
    for nonsense in ("", "t=,v1=", f"t={at}", "v1=00", "t=1e9,v1=zz"):
        assert not verify_webhook(SECRET, nonsense, body)


@keeps
async def lost_answer(world: World) -> None:
    gain = await Gain(world).start()
    async with client(world, "front") as front:
        await told(world, "lose_answer")
        record = await front.submit("near.transfer", transfer(7, gain.account), key=new_key(), wait_s=20)
    assert (record.replayed, record.done, len(record.attempts)) == (True, True, 1)
    assert await gain.total() == 7


@keeps
async def leaky_network(world: World) -> None:
    gain = await Gain(world).start()
    async with client(world, "leaky") as leaky:
        wanted = [transfer(10**n, gain.account) for n in range(9)]
        records = [await leaky.submit("near.transfer", one, key=new_key(), wait_s=20) for one in wanted]
        records = [await leaky.wait(record.idempotency_key) for record in records]
    assert all(record.done for record in records)
    assert await gain.total() == 111_111_111


@keeps
async def retry_after(world: World) -> None:
    before = await told(world, "answers")
    began = time.monotonic()
    async with client(world, by="slow") as slow:
        for _ in range(3):  # two at once, then one every two seconds
            await slow.submit("near.transfer", transfer(), key=new_key())
    after = await told(world, "answers")
    assert 1.0 <= time.monotonic() - began < 10
    assert 1 <= after.get("429", 0) - before.get("429", 0) <= 3


@keeps
async def unconfirmed(world: World) -> None:
    gain = await Gain(world).start()
    before = (await told(world, "answers")).get("503", 0)
    async with client(world) as direct:
        await told(world, "ledger_away", seconds=2.0)
        record = await direct.submit("near.transfer", transfer(3, gain.account), key=new_key(), wait_s=20)
        record = await direct.wait(record.idempotency_key)
    assert (await told(world, "answers")).get("503", 0) > before
    assert (record.done, await gain.total()) == (True, 3)


@keeps
async def api_restart(world: World) -> None:
    async with client(world) as direct:
        await told(world, "stall")
        key = (await direct.submit("near.transfer", transfer(), key=new_key())).idempotency_key
        waiting = asyncio.create_task(direct.wait(key, timeout_s=40))
        await told(world, "restart_api")
        await told(world, "unstall")
        assert (await waiting).done


@keeps
async def resumed_stream(world: World) -> None:
    async with client(world) as direct, client(world, "front") as front:
        await told(world, "stall")
        key = (await direct.submit("near.transfer", transfer(), key=new_key())).idempotency_key
        heard = []
        async for event in front.follow(key):
            heard.append(event.status)
            if len(heard) == 1:
                await told(world, "cut")
                await told(world, "unstall")
    assert heard == ["queued", "inflight", "done"]


@keeps
async def exact_amounts(world: World) -> None:
    gain = await Gain(world).start()
    async with client(world) as direct:
        key = new_key()
        record = await direct.submit(
            "near.transfer", transfer(BEYOND, gain.account), key=key, wait_s=20, metadata={"order": BEYOND}
        )
        assert record.done
        assert record.metadata == {"order": BEYOND}
        assert (await direct.get(key)).metadata == {"order": BEYOND}
    assert await gain.total() == BEYOND


@keeps
async def abort(world: World) -> None:
    async with client(world) as direct:
        await told(world, "stall")
        key = (await direct.submit("near.transfer", transfer(), key=new_key())).idempotency_key
        waiting = asyncio.create_task(direct.wait(key))
        await asyncio.wait([waiting], timeout=0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await told(world, "unstall")
        assert (await direct.wait(key)).done


@keeps
async def abort_stream(world: World) -> None:
    async with client(world) as direct:
        heard = asyncio.Event()

        async def listen() -> None:
            async for _ in direct.follow_pool("main"):
                heard.set()

        listening = asyncio.create_task(listen())
        while not heard.is_set():
            await direct.submit("near.transfer", transfer(), key=new_key(), wait_s=20)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening


@keeps
async def time_out(world: World) -> None:
    gain = await Gain(world).start()
    key = new_key()
    await told(world, "silence")
    began = time.monotonic()
    async with client(world, "front", retry_for_s=1.0, timeout_s=0.4) as front:
        with pytest.raises(Unreachable):
            await front.submit("near.transfer", transfer(5, gain.account), key=key)
        assert 0.4 <= time.monotonic() - began < 5
        await told(world, "heal")
        await front.submit("near.transfer", transfer(5, gain.account), key=key)
        assert (await front.wait(key)).done
    assert await gain.total() == 5


@keeps
async def still_waiting(world: World) -> None:
    async with client(world) as direct:
        await told(world, "stall")
        key = (await direct.submit("near.transfer", transfer(), key=new_key())).idempotency_key
        with pytest.raises(StillWaiting) as waiting:
            await direct.wait(key, timeout_s=0.3)
        assert (waiting.value.record.idempotency_key, waiting.value.record.final) == (key, False)
        await told(world, "unstall")
        assert (await direct.wait(key)).done


@keeps
async def not_repeated(world: World) -> None:
    async with client(world) as direct:
        key = new_key()
        await direct.submit("near.transfer", transfer(), key=key, wait_s=20)
        before = await told(world, "answers")
        with pytest.raises(KeyReused):
            await direct.submit("near.transfer", transfer(2), key=key)
        with pytest.raises(InvalidRequest) as invalid:
            await direct.submit("near.transfer", transfer(receiver="X"), key=new_key())
        with pytest.raises(NotFound):
            await direct.get(new_key())
        after = await told(world, "answers")
    assert invalid.value.field == "receiver_id"
    assert after["422"] - before.get("422", 0) == 2
    assert after["404"] - before.get("404", 0) == 1


@keeps
async def execute(world: World) -> None:
    call = {"contract_id": "counter.near", "method_name": "increment", "args": {}}
    async with client(world) as direct:
        key = new_key()
        first = await direct.execute("near.function_call", call, key=key)
        again = await direct.execute("near.function_call", call, key=key)
        assert first == again
        assert first.tx_hash == first.record.tx_hash
        assert first.outcome == first.record.result
        with pytest.raises(IntentFailed) as failed:
            await direct.execute("near.function_call", {**call, "method_name": "fail"}, key=new_key())
        assert failed.value.record.status == "failed"
        await told(world, "stall")
        with pytest.raises(StillWaiting):
            await direct.execute("near.function_call", call, key=new_key(), timeout_s=0.3)
        await told(world, "unstall")


@keeps
async def recover(world: World) -> None:
    message = secrets.token_hex(8)
    async with client(world) as direct:
        first = await direct.recover("alice.near", message, "counter.near", "increment", {"by": 1}, wait_s=20)
        again = await direct.recover("alice.near", message, "counter.near", "increment", {"by": 1}, wait_s=20)
    assert first.idempotency_key == f"recovery:alice.near:{message}"
    assert (first.done, again.replayed, again) == (True, True, first)


@keeps
async def create_account(world: World) -> None:
    name = f"c{secrets.token_hex(6)}.{world.stage.account_id}"
    async with client(world) as direct:
        first = await direct.create_account(name, KEY, initial_balance=10**22, wait_s=20)
        again = await direct.create_account(name, KEY, initial_balance=10**22, wait_s=20)
    assert (first.done, again.replayed, again.tx_hash) == (True, True, first.tx_hash)
    assert await told(world, "balance", account_id=name) == str(10**22)


@keeps
async def many(world: World) -> None:
    gain = await Gain(world).start()
    wanted = [
        {"kind": "near.transfer", "payload": transfer(1, gain.account), "idempotency_key": new_key()}
        for _ in range(1_000)
    ]
    async with client(world, "leaky") as leaky:
        results = [result async for result in leaky.submit_many(wanted)]
        assert sorted(result.index for result in results) == list(range(1_000))
        assert {result.result for result in results} == {"accepted", "replayed"}, "some answers were lost"
        records = [result.record for result in results if result.record is not None]
        assert {record.idempotency_key for record in records} == {one["idempotency_key"] for one in wanted}
        last = {record.lane: record.idempotency_key for record in records}
        for key in last.values():
            await leaky.wait(key, timeout_s=120)
    async with client(world) as direct:
        for one in wanted[::97]:
            await direct.wait(str(one["idempotency_key"]), timeout_s=60)
        again = await direct.submit_batch(wanted)
        for record in [one.record for one in again if one.record is not None and not one.record.done]:
            await direct.wait(record.idempotency_key, timeout_s=120)
    assert await gain.total() == 1_000


@keeps
async def batch(world: World) -> None:
    wanted = [
        {"kind": "near.transfer", "payload": transfer(), "idempotency_key": new_key()},
        {"kind": "near.transfer", "payload": transfer(-1), "idempotency_key": new_key()},
        {"kind": "near.transfer", "payload": transfer()},
    ]
    async with client(world) as direct:
        first, again = await direct.submit_batch(wanted), await direct.submit_batch(wanted)
        assert [one.result for one in first] == ["accepted", "refused", "accepted"]
        assert isinstance(first[1].error, InvalidRequest)
        assert [one.result for one in again] == ["replayed", "refused", "accepted"], "a made-up key is new each time"
        with pytest.raises(InvalidRequest):
            await direct.submit_batch([])


@keeps
async def paced(world: World) -> None:
    wanted = [{"kind": "near.transfer", "payload": transfer(), "idempotency_key": new_key()} for _ in range(4)]
    async with client(world, by="slow") as slow:  # two at once, then one every two seconds
        results = [result async for result in slow.submit_many(wanted)]
    assert [(one.index, one.result) for one in results] == [(n, "accepted") for n in range(4)]


@keeps
async def silent_about_secrets(world: World) -> None:
    secret = "token-nobody-knows"
    async with AsyncClient(world.stage.url, token=secret, pool="main", retry_for_s=0.2) as stranger:
        shown = [repr(stranger), repr(vars(stranger))]
        with pytest.raises(NotPermitted) as refused:
            await stranger.lanes()
        shown += [repr(refused.value), str(refused.value), repr(vars(refused.value))]
    async with AsyncClient("http://127.0.0.1:9", token=secret, retry_for_s=0.1) as nowhere:
        with pytest.raises(ClientError) as lost:
            await nowhere.lanes()
        shown += [repr(lost.value), str(lost.value)]
    assert not [text for text in shown if secret in text]
