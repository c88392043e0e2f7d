"""Who may ask what: secrets of producers and owners, requests that expire, and nothing for anybody else."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.ledger.conftest import durable_stage
from tests.servers.workerd import OWNER, PRODUCER, Workerd
from txmanager.core.errors import InvalidSettings, Misconfigured
from txmanager.ledger.durable import DurableObjectLedger
from txmanager.ledger.durable.address import Address
from txmanager.testing.ledger.stage import LONG_MS, Stage

RUN = "/ledger/v1/run"
BODY = b'{"calls":[["registry:x/lanes","hello",{}]]}'


def now() -> int:
    return time.time_ns() // 1_000_000


def ask(workerd: Workerd, body: bytes = BODY, *, secret: str = OWNER, at: int = 0, **other: str) -> httpx.Response:
    """A request by hand; `other` puts something else than what was signed."""
    address = Address.parse(workerd.url_for(secret))
    lines = address.head("POST", RUN, "", other.get("signed", "").encode() or body, lambda: now() + at)
    headers = dict(line.split(": ", 1) for line in lines[1:])
    url = f"http://127.0.0.1:{workerd.port}{other.get('path', RUN)}"
    return httpx.request(other.get("method", "POST"), url, content=body, headers=headers)


def test_a_request_that_is_signed_is_answered(durable: Workerd):
    assert ask(durable).json()["answers"][0]["ok"]["role"] == "owner"
    assert ask(durable, secret=PRODUCER).json()["answers"][0]["ok"]["role"] == "producer"


def test_two_secrets_are_valid_while_one_replaces_the_other(durable: Workerd):
    assert ask(durable, secret=f"replaced-{PRODUCER}").status_code == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"secret": "a-secret-that-nobody-knows-0123456789abcdef"},
        {"at": -61_000},
        {"at": 61_000},
        {"signed": "another body"},
        {"path": f"{RUN}?x=1"},
        {"path": "/ledger/v1/other"},
        {"method": "PUT"},
    ],
    ids=str,
)
def test_what_was_not_signed_is_refused_and_told_the_time(durable: Workerd, changed: dict[str, str]):
    said = ask(durable, **changed)
    assert said.status_code == 401
    assert abs(said.json()["now"] - now()) < 30_000
    assert set(said.json()) == {"error", "now"}


def test_what_is_signed_for_another_ledger_is_worth_nothing_here(durable: Workerd):
    address = Address.parse(f"do+http://:{OWNER}@localhost:{durable.port}")
    lines = address.head("POST", RUN, "", BODY, now)
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert httpx.post(f"http://127.0.0.1:{durable.port}{RUN}", content=BODY, headers=headers).status_code == 401


def test_a_socket_for_hints_is_signed_too(durable: Workerd):
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "x" * 22 + "==",
    }
    url = f"http://127.0.0.1:{durable.port}/ledger/v1/hints?object=lane:x/y"
    assert httpx.get(url, headers=upgrade).status_code == 401


def test_a_request_that_touches_too_many_objects_is_refused(durable: Workerd):
    calls = ",".join(f'["registry:x/{n}","hello",{{}}]' for n in range(41))
    assert ask(durable, f'{{"calls":[{calls}]}}'.encode()).status_code == 400


async def test_a_producer_accepts_and_reads_but_owns_nothing(durable: Workerd, prefix: str):
    async with durable_stage(durable.url, prefix) as owner, durable_stage(durable.url_for(PRODUCER), prefix) as stage:
        lane = await stage.lane()
        [entry] = await stage.queued(lane)
        assert (await stage.read(entry)).intent == entry.intent
        with pytest.raises(Misconfigured, match="owner's secret"):
            await stage.ledger.lease(lane, "thief", "token", LONG_MS)
        fence = await owner.own(lane)
        for call in (stage.ledger.take(fence, 1), stage.ledger.unfinished(fence), stage.ledger.sweep(0)):
            with pytest.raises(Misconfigured, match="owner's secret"):
                await call
        with pytest.raises(Misconfigured, match="owner's secret"):
            await stage.ledger.retire([await cancelled(stage, lane)])


async def cancelled(stage: Stage, lane: str):  # type: ignore[no-untyped-def]
    [entry] = await stage.queued(lane)
    return await stage.ledger.cancel(entry.intent.id)


async def test_a_wrong_secret_is_one_sentence(durable: Workerd):
    ledger = DurableObjectLedger(durable.url_for("x" * 40))
    with pytest.raises(Misconfigured, match=r"refuses our secret; check ledger\.password"):
        await ledger.start()
    await ledger.close()


async def test_something_else_at_the_address_is_one_sentence(redis7):
    """Any server that is no Worker of ours."""
    async with asyncio.timeout(30):
        server = await asyncio.start_server(_teapot, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        ledger = DurableObjectLedger(f"do+http://:{OWNER}@127.0.0.1:{port}")
        with pytest.raises(Misconfigured, match="is no ledger of ours"):
            await ledger.start()
        await ledger.close()
        server.close()


async def _teapot(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 418 teapot\r\nContent-Length: 2\r\n\r\nno")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"do+http://:{OWNER}@ledger.example.com", "ledger.url: must begin with do+https"),
        (f"do+http://:{OWNER}@10.0.0.1", "ledger.url: must begin with do+https"),
        (f"do+https://:{OWNER}@", "ledger.url: must name a host"),
        (f"do+https://:{OWNER}@host:x", "ledger.url: is malformed"),
        (f"do+https://:{OWNER}@host/?a=1", "ledger.url: must be scheme, host and path alone"),
        (f"do+https://me:{OWNER}@host/", "ledger.url: must be scheme, host and path alone"),
        ("do+https://:short@host", "ledger.password: must have at least 32 characters"),
        ("do+https://host", "ledger.password: must have at least 32 characters"),
    ],
)
def test_a_url_that_cannot_be_right_is_refused_by_field(url: str, problem: str):
    with pytest.raises(InvalidSettings) as told:
        Address.parse(url)
    assert problem in str(told.value)
    assert OWNER not in str(told.value)


def test_plain_http_is_for_this_machine_alone():
    for host in ("127.0.0.1", "[::1]", "localhost"):
        assert Address.parse(f"do+http://:{OWNER}@{host}:1").host in ("127.0.0.1", "::1", "localhost")
    assert OWNER not in repr(Address.parse(f"do+https://:{OWNER}@host"))
