"""The client against the real API: typed answers, safe retries, waits and streams, blocking and async alike."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import threading

import pytest

from tests.api.conftest import devnet, make_stage, stage  # noqa: F401  (fixtures)
from tests.api.stage import KEY, Stage, token
from tests.servers import free_port
from tests.servers.proxy import FaultProxy
from tests.waiting import until
from txmanager.client import (
    AsyncClient,
    Client,
    InvalidRequest,
    KeyReused,
    NotFound,
    NotPermitted,
    NotPossible,
    StillWaiting,
    Unreachable,
)
from txmanager.client.calls import Calls
from txmanager.core.states import LaneState, Status

TRANSFER = {"receiver_id": "dev1.near", "amount": "1"}


@pytest.fixture
def client(stage: Stage):  # noqa: F811
    with Client(stage.url, token=token("all"), pool="main") as running:
        yield running


def new_key() -> str:
    return f"c-{secrets.token_hex(8)}"


def test_ten_lines_create_an_account_and_a_retry_answers_the_same(client: Client, stage: Stage):  # noqa: F811
    name = f"c{secrets.token_hex(6)}.{stage.account_id}"
    record = client.create_account(name, KEY, initial_balance=5, wait_s=20)
    assert (record.status, record.done, record.replayed) == (Status.DONE, True, False)
    assert record.tx_hash == record.attempts[-1].tx_hash
    again = client.create_account(name, KEY, initial_balance=5)
    assert again == record
    assert again.replayed
    assert client.get(record.idempotency_key) == record


def test_errors_are_named_after_what_to_do(client: Client, stage: Stage):  # noqa: F811
    key = new_key()
    record = client.submit("near.transfer", TRANSFER, key=key, wait_s=20)
    assert record.final
    with pytest.raises(KeyReused) as reused:
        client.submit("near.transfer", {**TRANSFER, "amount": "2"}, key=key)
    assert "stands unchanged" in reused.value.kept
    with pytest.raises(InvalidRequest) as invalid:
        client.submit("near.transfer", {"receiver_id": "X", "amount": "1"})
    assert (invalid.value.field, invalid.value.status) == ("receiver_id", 422)
    with pytest.raises(NotFound):
        client.get(new_key())
    with pytest.raises(NotPossible):
        client.cancel(key)
    with Client(stage.url, token="wrong") as stranger, pytest.raises(NotPermitted):
        stranger.lanes()


def test_lanes_are_typed(client: Client):
    lanes = client.lanes()
    assert {lane.state for lane in lanes} == {LaneState.ACTIVE}
    assert client.lane(lanes[0].lane).pool == "main"


def test_following_tells_every_transition(client: Client):
    record = client.submit("near.transfer", TRANSFER)
    assert [event.status for event in client.follow(record.idempotency_key)] == ["queued", "inflight", "done"]


def test_a_client_can_be_shared_between_threads(client: Client):
    keys = [new_key() for _ in range(40)]
    found: list[str] = []

    def work(mine: list[str]) -> None:
        for key in mine:
            found.append(client.submit("near.transfer", TRANSFER, key=key, wait_s=20).idempotency_key)

    threads = [threading.Thread(target=work, args=(keys[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(keys)


def test_waiting_too_short_says_where_it_stands(make_stage, redis7, devnet, prefix):  # noqa: F811
    idle: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    idle.start()
    idle.worker.kill()
    with Client(idle.url, token=token("all"), pool="main") as client:
        key = client.submit("near.transfer", TRANSFER).idempotency_key
        with pytest.raises(StillWaiting) as waiting:
            client.wait(key, timeout_s=0.3)
        assert waiting.value.record.idempotency_key == key
        assert not waiting.value.record.final


async def test_the_async_client_does_the_same(stage: Stage):  # noqa: F811
    async with AsyncClient(stage.url, token=token("all"), pool="main") as client:
        records = await asyncio.gather(*(client.submit("near.transfer", TRANSFER, wait_s=20) for _ in range(50)))
        assert {record.status for record in records} == {Status.DONE}
        assert len({record.tx_hash for record in records}) == 50
        told = [event.status async for event in client.follow(records[0].idempotency_key)]
        assert told == ["queued", "inflight", "done"]


def through(proxy: FaultProxy) -> AsyncClient:
    return AsyncClient(f"http://127.0.0.1:{proxy.port}", token=token("all"), pool="main")


async def test_a_lost_answer_is_retried_under_the_same_key(stage: Stage):  # noqa: F811
    """The request reaches the API, the answer is lost: the retry finds the intent, and there is one effect."""
    async with FaultProxy("127.0.0.1", stage.port, resp=False) as proxy, through(proxy) as client:
        fault = proxy.cut_reply()
        record = await client.submit("near.transfer", TRANSFER, wait_s=20)
        assert fault.fired.is_set()
        assert (record.replayed, record.done) == (True, True)
        assert len(record.attempts) == 1


async def test_a_stream_is_taken_up_where_it_broke(stage: Stage):  # noqa: F811
    keys = [new_key(), new_key()]
    told: list[str] = []

    async def listen(client: AsyncClient) -> None:
        async for event in client.follow_pool("main"):
            told.append(f"{event.idempotency_key} {event.status}")

    direct = AsyncClient(stage.url, token=token("all"), pool="main")
    async with FaultProxy("127.0.0.1", stage.port, resp=False) as proxy, through(proxy) as client, direct:
        listening = asyncio.create_task(listen(client))
        try:

            async def heard_of_the_first() -> bool:
                """The stream begins when it is answered: what came before is not in it."""
                await direct.submit("near.transfer", TRANSFER, key=f"{keys[0]}-{len(told)}-{new_key()}", wait_s=20)
                return any(line.startswith(keys[0]) and line.endswith("done") for line in told)

            await until(heard_of_the_first, 20)
            proxy.disconnect()
            await direct.submit("near.transfer", TRANSFER, key=keys[1], wait_s=20)
            await until(lambda: f"{keys[1]} done" in told, 20)
        finally:
            listening.cancel()
    mine = [line for line in told if keys[1] in line]
    assert mine == [f"{keys[1]} {status}" for status in ("queued", "inflight", "done")]


def test_nobody_there_is_unreachable_after_the_time_for_retries():
    with Client(f"http://127.0.0.1:{free_port()}", retry_for_s=0.3) as client, pytest.raises(Unreachable):
        client.get("x")


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://user:pw@x"])
def test_a_wrong_url_is_refused_at_once(url: str):
    with pytest.raises(ValueError, match="url"):
        Client(url)


def test_both_clients_offer_every_call_with_the_same_signature():
    calls = [name for name, value in vars(Calls).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert len(calls) >= 12
    for name in calls:
        for kind in (Client, AsyncClient):
            assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Calls, name))
