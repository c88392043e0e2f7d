"""A stolen worker has the worker's identity and asks `txmanager signer` for anything. It gets nothing that the key's
policy does not allow, and slows down nobody else."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import select
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tests.signing.program import SignerProgram, signer_program
from tests.waiting import until
from txmanager.chains.evm.encoding import listed
from txmanager.chains.evm.names import checksummed
from txmanager.chains.evm.transaction import Body, Fees, encode
from txmanager.chains.near import actions as act
from txmanager.chains.near.borsh import string, u32
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.transaction import DELEGATE_PREFIX, Envelope, call_bytes, sign_delegate
from txmanager.chains.near.unsigned import SIGNER_SIDE, read_effects
from txmanager.core.errors import InvalidInput, SignerAway, SignerRefused, TransactionRefused
from txmanager.core.signing_policy import Effects, KeyPolicy, judge
from txmanager.signing import Ed25519Signer, Secret, SigningRequest, guard
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.evm import EvmSigner, check_secp256k1, keccak256
from txmanager.signing.frames import MAX_BATCH, MAX_FRAME, frame, read_frame
from txmanager.signing.process import ProcessOptions, ProcessProvider
from txmanager.signing.signer import Answer
from txmanager.signing.sources import Curve
from txmanager.signing.totals import Totals, create
from txmanager.signing.trial import PREFIX, trial_request

NEAR, USER = Ed25519Signer(Secret(bytes(range(32)))), Ed25519Signer(Secret(bytes(range(1, 33))))
EVM = EvmSigner(Secret(bytes(range(2, 34))))
ACCOUNT, SHOP = "relayer.near", "0x" + "5a" * 20
POLICY = {"max_value": "1000", "max_fee": str(4 * 10**23), "max_per_day": str(10**24)}
NEAR_KEY = {
    "chain": "near",
    "account": ACCOUNT,
    "secret": NEAR.export().reveal().decode(),
    "policy": {**POLICY, "receivers": ["game.near", "*.game.near"], "methods": ["mint"]},
}
EVM_KEY = {
    "chain": "evm",
    "chain_id": 31337,
    "secret": bytes(range(2, 34)).hex(),
    "policy": {
        "max_value": "1000",
        "max_fee": str(10**15),
        "max_per_day": str(10**16),
        "receivers": [checksummed(SHOP)],
        "methods": ["0xA9059CBB"],
    },
}
KEYS = {"near-1": NEAR_KEY, "evm-1": EVM_KEY}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignerProgram]:
    with signer_program(tmp_path_factory.mktemp("signer"), {**KEYS, "others": EVM_KEY}) as running:
        yield running


def near(
    *actions: act.Action,
    receiver: str = "game.near",
    account: str = ACCOUNT,
    nonce: int = 1,
    key: Any = NEAR,
    **more: Any,
) -> SigningRequest:
    envelope = Envelope(account, PublicKey.parse(key.public_key), key, **more)
    return envelope.unsigned((nonce, *call_bytes(receiver, actions)), bytes(32))


def evm(
    to: str = SHOP,
    value: int = 1,
    data: bytes = b"",
    *,
    chain_id: int = 31337,
    nonce: int = 1,
    price: int = 10**9,
    **more: Any,
) -> SigningRequest:
    body = Body(bytes.fromhex(to[2:]), value, data, more.pop("gas", 100_000), **more)
    return encode(chain_id, nonce, Fees(price, 1), body).request()


def raw(unsigned: bytes, hashed: Any = None) -> SigningRequest:
    return SigningRequest(unsigned, (hashed or (lambda data: sha256(data).digest()))(unsigned))


def call(method: str = "mint", deposit: int = 0, gas: int = 10**13) -> act.FunctionCall:
    return act.FunctionCall(method, b"{}", gas, deposit)


def relayed(*actions: act.PlainAction, receiver: str = "game.near", second: bool = False) -> act.SignedDelegate:
    key = PublicKey.parse(USER.public_key)
    return sign_delegate(act.DelegateAction("user.near", receiver, actions, 7, 1_000, key, second), USER)


async def ask(program: SignerProgram, key: str, *requests: SigningRequest) -> list[Answer]:
    provider = program.provider()
    try:
        return await provider.sign_many(key, Curve.ED25519, requests)
    finally:
        await provider.close()


NEW = PublicKey.parse(USER.public_key)

ALLOWED_NEAR = {
    "a call": near(call()),
    "a deposit": near(call(deposit=1000)),
    "a transfer below": near(act.Transfer(5), receiver="a.b.game.near"),
    "a no-op": near(act.Transfer(0), receiver=ACCOUNT),
    "a new account with its key": near(act.CreateAccount(), act.Transfer(3), act.AddKey(NEW), receiver="new.game.near"),
    "a gas key's nonce": near(call(), nonce_index=3),
    "a strict nonce": near(call(), strict=True),
    "a delegate": near(relayed(call(deposit=1)), receiver="user.near"),
    "a second delegate": near(relayed(call(), second=True), receiver="user.near"),
    "a trial": trial_request(NEAR.public_key, lambda data: sha256(data).digest()),
}
ALLOWED_EVM = {
    "a payment": evm(),
    "a token's transfer": evm(data=bytes.fromhex("a9059cbb") + bytes(64), value=0),
    "legacy": evm(type=0),
    "an access list": evm(type=1, access_list=((bytes(20), (bytes(32),)),)),
    "a no-op": evm(EVM.address, 0, nonce=2),
    "a trial": trial_request(EVM.public_key, keccak256),
}


@pytest.mark.parametrize("what", ALLOWED_NEAR)
async def test_what_the_policy_allows_is_signed_on_near(program: SignerProgram, what: str) -> None:
    request = ALLOWED_NEAR[what]
    [answer] = await ask(program, "near-1", request)
    assert isinstance(answer, bytes), answer
    assert check_ed25519(NEAR.public_bytes, request.digest, answer) == answer


@pytest.mark.parametrize("what", ALLOWED_EVM)
async def test_what_the_policy_allows_is_signed_on_evm(program: SignerProgram, what: str) -> None:
    request = ALLOWED_EVM[what]
    [answer] = await ask(program, "evm-1", request)
    assert isinstance(answer, bytes), answer
    assert check_secp256k1(EVM.address, request.digest, answer) == answer


ONE, WHOLE = TransactionRefused, SignerRefused
DENIED_NEAR = {
    "another receiver": (near(call(), receiver="thief.near"), ONE, "receiver 'thief.near'"),
    "a suffix of no part": (near(call(), receiver="xgame.near"), ONE, "receiver 'xgame.near'"),
    "another method": (near(call("withdraw")), ONE, "method 'withdraw'"),
    "too much": (near(act.Transfer(1001)), ONE, "it can take 1001"),
    "too much in parts": (near(call(deposit=600), call(deposit=600)), ONE, "it can take 1200"),
    "too much gas": (near(call(gas=5 * 10**14)), ONE, "fee may be"),
    "its own keys": (near(act.AddKey(NEW), receiver=ACCOUNT), ONE, "'add_key' changes the signing account"),
    "its own keys at a friend": (near(act.AddKey(NEW)), ONE, "'add_key' changes"),
    "deleting its key": (near(act.DeleteKey(NEW), receiver=ACCOUNT), ONE, "'delete_key' changes"),
    "deleting itself": (near(act.DeleteAccount("thief.near"), receiver=ACCOUNT), ONE, "'delete_account' changes"),
    "a contract": (near(act.DeployContract(b"wasm"), receiver=ACCOUNT), ONE, "'deploy_contract' changes"),
    "its own contract": (near(call(), receiver=ACCOUNT), ONE, "'function_call' changes"),
    "a stake": (near(act.Stake(1, NEW), receiver=ACCOUNT), ONE, "'stake' changes"),
    "hidden behind a good action": (near(call(), act.AddKey(NEW)), ONE, "'add_key' changes"),
    "a gas key's money": (near(act.WithdrawFromGasKey(NEW, 5), receiver=ACCOUNT), ONE, "changes the signing"),
    "a delegate elsewhere": (near(relayed(call(), receiver="thief.near"), receiver="user.near"), ONE, "'thief.near'"),
    "a delegate's method": (near(relayed(call("rob")), receiver="user.near"), ONE, "method 'rob'"),
    "a delegate's deposit": (near(relayed(call(deposit=2000)), receiver="user.near"), ONE, "it can take 2000"),
    "another account": (near(call(), account="other.near"), WHOLE, "account 'other.near'; this key signs for"),
    "another key": (near(call(), key=USER), ONE, "is a transaction of the key"),
    "a delegate's keys": (near(relayed(act.AddKey(NEW)), receiver="user.near"), ONE, "action 'add_key' is not allowed"),
    "more than nodes take": (near(act.FunctionCall("mint", bytes(1_600_000), 10**13)), ONE, "nodes take 1572864"),
    "too many actions": (near(*[act.Transfer(0)] * 101), ONE, "at most 100 actions"),
    "a message": (raw(u32((1 << 31) + 413) + string("pay me")), ONE, "cannot read"),
    "a delegate of our own": (
        raw(
            DELEGATE_PREFIX
            + act.DelegateAction(
                ACCOUNT, "thief.near", (act.Transfer(1),), 1, 9, PublicKey.parse(NEAR.public_key)
            ).encode()
        ),
        ONE,
        "cannot read",
    ),
    "a digest alone": (SigningRequest(b"", bytes(32)), WHOLE, "signs transactions, not digests"),
    "a digest as bytes": (SigningRequest(bytes(32), bytes(32)), WHOLE, "the digest is not the one of these bytes"),
    "another digest": (SigningRequest(near(call()).unsigned, near(call("rob")).digest), WHOLE, "the digest is not"),
    "an action nobody knows": (
        raw(near(act.Transfer(1)).unsigned[:-17] + b"\x09" + bytes(16)),
        ONE,
        "is not supported",
    ),
    "bytes left over": (raw(near(call()).unsigned + b"\0"), ONE, "bytes are left over"),
    "no actions": (near(), ONE, "at least one action"),
    "half a transaction": (raw(near(call()).unsigned[:40]), ONE, "ends too early"),
    "a trial of another key": (trial_request(USER.public_key, lambda d: sha256(d).digest()), ONE, "cannot read"),
    "more than a trial": (raw(PREFIX + NEAR.public_key.encode() + b"\n" + b"0" * 31 + b"!"), ONE, "cannot read"),
}
DENIED_EVM = {
    "another chain": (evm(chain_id=1), WHOLE, "of chain 1; this key signs for 31337"),
    "another chain, legacy": (evm(chain_id=1, type=0), WHOLE, "of chain 1;"),
    "no chain": (
        raw(_legacy := bytes.fromhex("dd") + b"\x01\x01\x82\x52\x08\x94" + bytes(20) + b"\x01\x80", keccak256),
        ONE,
        "cannot",
    ),
    "another receiver": (evm("0x" + "66" * 20), ONE, "receiver '0x6666"),
    "another method": (evm(data=bytes.fromhex("095ea7b3")), ONE, "method '0x095ea7b3'"),
    "a short method": (evm(data=b"\xa9"), ONE, "method '0xa9'"),
    "too much": (evm(value=1001), ONE, "it can take 1001"),
    "too dear for this one": (evm(gas=2_000_000), ONE, "its fee may be"),
    "too dear for anybody": (evm(price=10**12), WHOLE, "its fee may be"),
    "a contract": (encode(31337, 1, Fees(9, 1), Body(b"", 0, b"\x60", 90_000)).request(), ONE, "action 'create'"),
    "its own code": (evm(EVM.address, 0, b"\xa9\x05\x9c\xbb"), ONE, "'call' changes the signing account"),
    "somebody's code": (
        evm(type=4, authorizations=((31337, bytes(20), 0, 0, 1, 1),)),
        ONE,
        "action 'set_code'",
    ),
    "an authorization": (raw(b"\x05" + bytes.fromhex("d8827a6994") + bytes(20) + b"\x01", keccak256), ONE, "of type 5"),
    "a message": (raw(b"\x19Ethereum Signed Message:\n4pay!", keccak256), ONE, "of type 25"),
    "typed data": (raw(b"\x19\x01" + bytes(64), keccak256), ONE, "of type 25"),
    "a type nobody knows": (raw(b"\x03" + evm().unsigned[1:], keccak256), ONE, "of type 3"),
    "a long number": (
        raw(_padded := evm(type=0).unsigned[:1] + b"\x00" + evm(type=0).unsigned[2:], keccak256),
        ONE,
        "not encoded",
    ),
    "wide lists": (
        raw(b"\x02" + listed(evm().unsigned[3:-1] + listed(listed(b"\x01" + listed(b"\x01" * 3_000_000)))), keccak256),
        ONE,
        "nodes take 131072",
    ),
    "a list as an address": (
        raw(b"\x02" + evm().unsigned[1:].replace(b"\x94" + b"\x5a" * 20, b"\xd4" + b"\x5a" * 20), keccak256),
        ONE,
        "is not an unsigned transaction",
    ),
    "deep lists": (raw(b"\x02" + b"\xc1" * 50_000 + b"\xc0", keccak256), ONE, "cannot read"),
    "a digest alone": (SigningRequest(b"", bytes(32)), WHOLE, "signs transactions, not digests"),
    "another digest": (SigningRequest(evm().unsigned, bytes(32)), WHOLE, "the digest is not"),
    "the other chain's digest": (raw(evm().unsigned), WHOLE, "the digest is not"),
}


@pytest.mark.parametrize("what", DENIED_NEAR)
async def test_what_the_policy_does_not_allow_is_not_signed_on_near(program: SignerProgram, what: str) -> None:
    request, kind, says = DENIED_NEAR[what]
    good = near(call(), nonce=99)
    answers = await ask(program, "near-1", good, request, good)
    assert type(answers[1]) is kind, answers[1]
    assert says in str(answers[1])
    assert isinstance(answers[0], bytes), "its neighbours are signed"
    assert answers[2] == answers[0]


@pytest.mark.parametrize("what", DENIED_EVM)
async def test_what_the_policy_does_not_allow_is_not_signed_on_evm(program: SignerProgram, what: str) -> None:
    request, kind, says = DENIED_EVM[what]
    answers = await ask(program, "evm-1", evm(nonce=99), request)
    assert type(answers[1]) is kind, answers[1]
    assert says in str(answers[1])
    assert isinstance(answers[0], bytes)


async def test_the_days_total_holds_across_batches_kills_and_clients(tmp_path: Path) -> None:
    """Each costs 10^14 + 1 at worst, and 10^15 is a day: nine fit, whoever asks, however often the signer is killed."""
    policy = {**EVM_KEY["policy"], "max_per_day": str(10**15)}
    keys = {"evm-1": {**EVM_KEY, "policy": policy}}
    with signer_program(tmp_path, keys) as program:
        signed = 0
        for round in range(4):
            answers = await ask(program, "evm-1", *(evm(nonce=10 * round + n) for n in range(3)))
            signed += sum(isinstance(one, bytes) for one in answers)
            program.kill()
            program.start()
        assert signed == 9
        answers = await ask(program, "evm-1", *(evm(nonce=100 + n) for n in range(64)))
        assert {type(one) for one in answers} == {SignerRefused}
        assert "of today's" in str(answers[0])
        # Nothing of it can be had by a lane that resumes: its trial is refused, too.
        [trial] = await ask(program, "evm-1", trial_request(EVM.public_key, keccak256))
        assert isinstance(trial, SignerRefused)
        # What was counted already can be had again: only one transaction of a nonce can land.
        [again] = await ask(program, "evm-1", evm(nonce=0))
        assert isinstance(again, bytes)


async def test_the_days_total_holds_for_many_who_ask_at_the_same_time(tmp_path: Path) -> None:
    policy = {**EVM_KEY["policy"], "max_per_day": str(10**15)}
    with signer_program(tmp_path, {"evm-1": {**EVM_KEY, "policy": policy}}) as program:
        asked = (ask(program, "evm-1", *(evm(nonce=100 * who + n) for n in range(4))) for who in range(12))
        answers = [one for answers in await asyncio.gather(*asked) for one in answers]
        assert sum(isinstance(one, bytes) for one in answers) == 9


@pytest.mark.parametrize("inner", [act.Transfer(5), act.CreateAccount()])
def test_wrapping_an_action_into_a_delegate_does_not_make_it_another_one(inner: act.PlainAction) -> None:
    """We pay for what a delegate holds; whoever has the worker signs as any user he likes."""
    told = read_effects(near(relayed(inner, call()), receiver="user.near").unsigned, NEAR.public_key)
    only_calls = KeyPolicy(frozenset({"function_call", "delegate"}), 1000, 10**30, 10**30, account=ACCOUNT)
    refusal = judge(only_calls, told)
    assert refusal is not None
    assert "is not allowed" in refusal.words
    assert judge(replace(only_calls, actions=SIGNER_SIDE.usual), told) is None


async def test_a_greedy_transaction_is_refused_alone_while_the_day_has_room_for_others(tmp_path: Path) -> None:
    policy = {**EVM_KEY["policy"], "max_per_day": str(10**15), "max_fee": str(9 * 10**14)}
    with signer_program(tmp_path, {"evm-1": {**EVM_KEY, "policy": policy}}) as program:
        answers = await ask(
            program, "evm-1", evm(nonce=1, gas=600_000), evm(nonce=2, gas=800_000), evm(nonce=3), evm(nonce=4)
        )
        assert [type(one) for one in answers] == [bytes, TransactionRefused, bytes, bytes]


async def test_a_signer_whose_state_is_lost_or_damaged_does_not_start(tmp_path: Path) -> None:
    with signer_program(tmp_path, {"evm-1": EVM_KEY}) as program:
        [first] = await ask(program, "evm-1", evm())
        assert isinstance(first, bytes)
        program.stop()
        (tmp_path / "state").write_bytes(b"not a database at all" * 400)
        done = program.run()
        assert done.returncode == 2
        assert "is not a signer's state" in done.stderr
        (tmp_path / "state").unlink()
        done = program.run()
        assert done.returncode == 2
        assert "run `txmanager signer --init` once" in done.stderr


async def test_keys_of_other_clients_are_not_there(tmp_path: Path) -> None:
    clients = {
        "mine": {"uid": os.getuid(), "keys": ["near-1"]},
        "theirs": {"uid": os.getuid() + 1, "keys": ["evm-1"]},
    }
    with signer_program(tmp_path, KEYS, clients=clients) as program:
        provider = program.provider()
        words = []
        for key in ("evm-1", "nowhere"):
            with pytest.raises(SignerRefused) as caught:
                await provider.describe(key)
            words.append(str(caught.value).replace(key, "KEY"))
            [answer] = await provider.sign_many(key, Curve.SECP256K1, [evm()])
            assert isinstance(answer, SignerRefused)
        assert words[0] == words[1], "nobody learns which keys there are"
        assert (await provider.describe("near-1")).name == NEAR.public_key
        await provider.close()


async def test_another_user_is_not_heard_and_the_socket_is_closed_to_others(tmp_path: Path) -> None:
    clients = {"theirs": {"uid": os.getuid() + 1, "keys": ["evm-1"]}}
    with signer_program(tmp_path, KEYS, clients=clients) as program:
        assert program.socket.stat().st_mode & 0o777 == 0o600
        with pytest.raises(SignerAway, match="closed the connection"):
            await program.provider().describe("evm-1")
        assert '"who": "user 0"' in program.log.read_text() or "stranger refused" in program.log.read_text()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("how", ["at once", "the question unread", "the question read"])
def test_a_connection_that_the_signer_closes_is_told_in_the_same_words(tmp_path: Path, loop: Any, how: str) -> None:
    """The system reports an end, a reset or a broken pipe, by what was on its way."""

    def serve(listening: socket.socket) -> None:
        for _ in range(3):
            connection, _ = listening.accept()
            with connection:
                if how != "at once":
                    select.select([connection], [], [], 20)
                if how == "the question read":
                    connection.recv(1 << 16)

    async def story() -> None:
        provider = ProcessProvider(ProcessOptions("box", str(tmp_path / "s")))
        for _ in range(3):
            with pytest.raises(SignerAway, match=r"^box: the signer closed the connection$"):
                await provider.describe("evm-1")
        await provider.close()

    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(1) as thread:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        listening.settimeout(5)  # a failure must not wait for a client that gave up
        serving, running = thread.submit(serve, listening), loop()
        try:
            running.run_until_complete(story())
        finally:
            running.close()
        serving.result(20)


async def test_what_takes_long_to_read_leaves_time_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two batches of one client, on two connections: they are read one after the other, with pauses."""
    create(tmp_path / "state")
    seen: list[str] = []

    def slow(unsigned: bytes, _: str) -> Effects:
        seen.append("read")
        time.sleep(2 * guard._LONG_S)
        raise InvalidInput("unsigned", "is odd")

    async def others() -> None:
        while True:
            if seen and seen[-1] == "read":
                seen.append("others")
            await asyncio.sleep(0)

    policy = KeyPolicy(frozenset(), 1, 1, 1)
    made = guard.Guard("k", Curve.SECP256K1, EVM, policy, Totals(tmp_path / "state"), keccak256, slow)
    aside, turn = asyncio.create_task(others()), asyncio.Lock()
    batch = [raw(bytes((n + 1,)), keccak256) for n in range(5)]
    await asyncio.gather(made.sign_many(batch, turn), made.sign_many(batch, turn))
    aside.cancel()
    assert seen.count("read") == 10
    assert not any(first == second for first, second in itertools.pairwise(seen)), seen


async def _alive(program: SignerProgram) -> None:
    [answer] = await asyncio.wait_for(ask(program, "near-1", near(call())), 20)
    assert isinstance(answer, bytes)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (MAX_FRAME + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff" + b"x" * 1000,
        frame({})[:-1] + b"!",
        b"\0\0\0\x02[]",
        frame({"id": 1, "do": "sign", "key": "near-1", "requests": []}),
        frame({"id": 1, "do": "sign", "key": "near-1", "requests": [{}]}),
        frame({"id": 1, "do": "sign", "key": "near-1", "requests": [{"unsigned": 5, "digest": []}]}),
        frame({"id": 1, "do": "sign", "key": "near-1", "requests": [{"unsigned": "!", "digest": "00"}]}),
        frame({"id": 1, "do": "sign", "key": "near-1", "requests": [{"unsigned": "", "digest": ""}] * (MAX_BATCH + 1)}),
        frame({"id": 1, "do": "export", "key": "near-1"}),
        b"\0\0\0\x05\x80abcd",
        b"\0\0\xc3\x50" + b"[" * 50_000,
    ],
)
async def test_garbage_closes_its_own_connection_and_nothing_else(program: SignerProgram, garbage: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(program.socket)
    writer.write(garbage)
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()
    await _alive(program)


async def test_a_slow_client_is_cut_off_and_others_are_served(program: SignerProgram) -> None:
    """More slow frames than a client has turns wait for each other, and end after the time that a frame has."""
    writers = []
    for _ in range(8):
        _, writer = await asyncio.open_unix_connection(program.socket)
        writer.write(b"\0\0\x10\0" + b"{")
        writers.append(writer)
    await _alive(program)
    for writer in writers:
        writer.close()


async def test_many_connections_leave_room_for_the_next_one(program: SignerProgram) -> None:
    opened = [await asyncio.open_unix_connection(program.socket) for _ in range(200)]
    await _alive(program)
    reader, _ = opened[0]
    assert await asyncio.wait_for(reader.read(), 20) == b"", "the oldest was closed"
    for _, writer in opened:
        writer.close()


async def test_a_client_that_takes_no_answers_is_cut_off(program: SignerProgram) -> None:
    _, writer = await asyncio.open_unix_connection(program.socket)
    question = frame({"id": 1, "do": "describe", "key": "near-1"})

    async def ask_on() -> None:
        while True:
            writer.write(question * 1000)
            await writer.drain()

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(ask_on(), 60)
    writer.close()
    await _alive(program)


async def test_huge_batches_come_back_whole_and_in_order(program: SignerProgram) -> None:
    requests = [near(call(), nonce=1) for _ in range(300)]
    for n in (7, 170, 299):
        requests[n] = near(call("rob"), nonce=n)
    answers = await ask(program, "near-1", *requests)
    assert [n for n, one in enumerate(answers) if isinstance(one, TransactionRefused)] == [7, 170, 299]
    big = act.FunctionCall("mint", bytes(1_400_000), 10**13)
    answers = await ask(program, "near-1", near(big), near(call()), near(big))
    assert [type(one) for one in answers] == [bytes] * 3


async def test_questions_are_answered_side_by_side_by_their_numbers(program: SignerProgram) -> None:
    reader, writer = await asyncio.open_unix_connection(program.socket)
    for n in range(40):
        writer.write(frame({"id": n, "do": "describe", "key": "near-1"}))
    got = [await asyncio.wait_for(read_frame(reader), 20) for _ in range(40)]
    assert sorted(one["id"] for one in got if one) == list(range(40))
    writer.close()


async def test_every_refusal_is_in_the_log_with_its_client_and_no_secret_is(program: SignerProgram) -> None:
    await ask(program, "near-1", near(act.AddKey(NEW), receiver=ACCOUNT, nonce=4242))

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in program.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "not signed" and "add_key" in line["why"]]

    await until(logged, what="the refusal is logged")
    assert logged()[-1]["client"] == "worker"
    assert logged()[-1]["key"] == "near-1"
    text = program.log.read_text()
    assert NEAR_KEY["secret"] not in text
    assert EVM_KEY["secret"] not in text


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_signer_that_died_while_nobody_asked_is_found_again(tmp_path: Path, loop: Any) -> None:
    with signer_program(tmp_path, {"evm-1": EVM_KEY}) as program:

        async def story() -> None:
            provider = program.provider()
            await provider.describe("evm-1")
            for _ in range(2):
                program.kill()
                [away] = await provider.sign_many("evm-1", Curve.SECP256K1, [evm()])
                assert isinstance(away, SignerAway)
                program.start()
                [found] = await provider.sign_many("evm-1", Curve.SECP256K1, [evm()])
                assert isinstance(found, bytes), found
            await provider.close()

        running = loop()
        try:
            running.run_until_complete(story())
        finally:
            running.close()
