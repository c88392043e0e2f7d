"""The example relays, two processes of each, in front of the Python stack and of resident lanes under workerd."""

from __future__ import annotations

import asyncio
import base64
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import base58
import httpx
import pytest

from tests.api.stage import KEY
from tests.client.world import World
from tests.typescript.package import ROOT
from tests.typescript.relays import Relay, express, prepared, worker
from tests.waiting import until_sync
from txmanager.chains.near import PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.transaction import sign_delegate
from txmanager.signing import Ed25519Signer

EXAMPLES = {"express-relay": express, "worker-relay": worker}
STACKS = ("python", "resident")
BALANCE = 10**23


@pytest.fixture(scope="module", params=STACKS)
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found


@pytest.fixture(scope="module", params=EXAMPLES)
def example(request: pytest.FixtureRequest, tarball: Path) -> tuple[str, Path]:
    return request.param, prepared(request.param, tarball)


@pytest.fixture(scope="module")
def relays(example, world: World) -> Iterator[list[Relay]]:
    name, folder = example
    started = [Relay(EXAMPLES[name], folder, world) for _ in range(2)]
    yield started
    for relay in started:
        relay.close()


def new_name() -> str:
    return f"r{secrets.token_hex(6)}"


def test_200_creations_through_two_processes_meet_no_invalid_nonce(relays: list[Relay], world: World):
    before = world.devnet.admin("", method="GET")["refused"].get("InvalidNonce", 0)
    names = [new_name() for _ in range(200)]

    async def ask(http: httpx.AsyncClient, relay: Relay, name: str) -> tuple[int, str, str]:
        url = f"http://127.0.0.1:{relay.port}/create_account"
        reply = await http.post(url, json={"account_id": name, "public_key": KEY})
        told = reply.json()
        return reply.status_code, told["status"], told["transaction_hash"]

    async def everyone() -> list[list[tuple[int, str, str]]]:
        async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as http:
            return [await asyncio.gather(*(ask(http, relays[n % 2], name) for n, name in enumerate(names)))]

    [answers] = asyncio.run(everyone())
    assert {answer[:2] for answer in answers} == {(200, "done")}
    assert len({hash for _, _, hash in answers}) == 200
    assert world.devnet.admin("", method="GET")["refused"].get("InvalidNonce", 0) == before
    assert world.balance(f"{names[0]}.{world.stage.account_id}") == str(BALANCE)


def test_a_relay_killed_before_it_answers_leaves_one_account_and_one_payment(example, relays, world: World):
    name, folder = example
    asked = {"account_id": new_name(), "public_key": KEY}
    account = f"{asked['account_id']}.{world.stage.account_id}"
    doomed = Relay(EXAMPLES[name], folder, world)
    unanswered = threading.Event()

    def lose() -> None:
        with suppress(httpx.TransportError):
            doomed.post("/create_account", asked)
            return
        unanswered.set()

    world.stall()
    try:
        lost = threading.Thread(target=lose)
        lost.start()
        path = f"/v1/intents/create:{account}:{KEY}"
        until_sync(lambda: world.stage.get(path).status_code == 200, 20, what="the intent being accepted")
        doomed.kill()
        lost.join(20)
        assert unanswered.is_set()
    finally:
        world.unstall()
    status, told = relays[1].post("/create_account", asked)
    assert (status, told["status"]) == (200, "done")
    assert relays[0].post("/create_account", asked) == (200, told)
    record = world.stage.get(path).json()
    assert (len(record["attempts"]), record["tx_hash"]) == (1, told["transaction_hash"])
    assert world.balance(account) == str(BALANCE)
    doomed.close()


def test_a_users_delegate_is_paid_for_once_in_every_form(relays: list[Relay], world: World):
    user, name = Ed25519Signer.generate(), new_name()
    status, made = relays[0].post("/create_account", {"account_id": name, "public_key": user.public_key})
    assert (status, made["status"]) == (200, "done"), made
    account = f"{name}.{world.stage.account_id}"
    known = {"account_id": account, "public_key": user.public_key}
    delegate = sign_delegate(
        act.DelegateAction(
            sender_id=account,
            receiver_id="counter.near",
            actions=(act.FunctionCall("increment", b"{}", 10**13, 0),),
            nonce=world.devnet.nonce(known) + 1,
            max_block_height=10**12,
            public_key=PublicKey.parse(user.public_key),
        ),
        user,
    )
    raw = delegate.encode()
    status, first = relays[0].post("/relay", {"signed_delegate_action": base64.b64encode(raw).decode()})
    assert (status, first["status"]) == (200, "done"), first
    assert relays[1].post("/relay", list(raw)) == (200, first)
    assert relays[1].post("/send_meta_tx", as_nearcore_json(delegate, user)) == (200, first)


def as_nearcore_json(delegate: act.SignedDelegate, user: Ed25519Signer) -> dict[str, object]:
    told = delegate.delegate
    call = {"method_name": "increment", "args": base64.b64encode(b"{}").decode(), "gas": 10**13, "deposit": "0"}
    return {
        "delegate_action": {
            "sender_id": told.sender_id,
            "receiver_id": told.receiver_id,
            "actions": [{"FunctionCall": call}],
            "nonce": told.nonce,
            "max_block_height": told.max_block_height,
            "public_key": user.public_key,
        },
        "signature": f"ed25519:{base58.b58encode(delegate.signature).decode()}",
    }


def test_a_recovery_is_tried_once_per_message(relays: list[Relay]):
    asked = {"account_id": "alice.near", "message_id": secrets.token_hex(8), "public_key": KEY}
    status, first = relays[0].post("/recover", asked)
    assert (status, first["status"]) == (200, "done"), first
    assert relays[1].post("/recover", asked) == (200, first)
    assert relays[1].http.get(f"/status/{first['key']}").json() == first


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/create_account", {"account_id": "a.b", "public_key": KEY}, "account_id"),
        ("/create_account", {"account_id": "carol", "public_key": "nonsense"}, "public_key"),
        ("/create_account", {"account_id": "carol"}, "public_key"),
        ("/relay", {}, "signed_delegate_action"),
        ("/relay", {"signed_delegate_action": "?"}, "signed_delegate"),
        ("/send_meta_tx", [], "body"),
        ("/recover", {"account_id": "alice.near"}, "message_id"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(relays: list[Relay], path: str, body: object, words: str):
    status, told = relays[0].post(path, body)
    assert status in (400, 422), told
    assert words in str(told)


def test_no_relay_shows_its_token(relays: list[Relay]):
    assert all("token-all" not in relay.said for relay in relays)


def test_each_readme_says_how_to_start_in_five_lines(example):
    name, _ = example
    text = (ROOT / "examples" / name / "README.md").read_text()
    [block] = [part for part in text.split("```") if part.startswith("sh\n")]
    lines = block.removeprefix("sh\n").strip().splitlines()
    assert len(lines) == 5
    assert "/create_account" in lines[-1]
