"""The nonce service on a real node, through two API processes: the races that EVM teams suffer from, each closed."""

from __future__ import annotations

import base64
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.evm.nonce_stage import nonce_service
from tests.waiting import until_sync
from txmanager.client import AsyncClient, InvalidRequest, NonceConflict, NotPossible

# -- problem 1: two callers read the same number


def test_many_callers_of_a_cold_address_get_distinct_consecutive_numbers(service):
    wallet = service.wallet()
    with ThreadPoolExecutor(16) as callers:
        got = list(callers.map(lambda n: service.reserve(wallet, n % 2)["nonce"], range(40)))
    assert sorted(got) == list(range(40))


def test_a_seeded_counter_starts_where_the_chain_is(service):
    wallet, receiver = service.wallet(), service.receiver
    for nonce in range(3):
        service.machine.rpc("eth_sendRawTransaction", wallet.sign(nonce, receiver))
    service.until_count(wallet, 3)
    assert service.reserve(wallet)["nonce"] == 3


def test_a_seeded_counter_leaves_alone_what_waits_in_the_pool(service):
    wallet, receiver = service.wallet(), service.receiver
    service.machine.rpc("evm_setAutomine", False)
    try:
        for nonce in range(2):
            service.machine.rpc("eth_sendRawTransaction", wallet.sign(nonce, receiver))
        assert service.reserve(wallet)["nonce"] == 2
    finally:
        service.machine.rpc("evm_setAutomine", True)
        service.machine.rpc("evm_mine")


# -- problem 2: the number is in flight over two calls, and its retries


def test_a_repeated_reserve_with_the_same_token_gets_the_same_number(service):
    wallet, token = service.wallet(), secrets.token_hex(8)
    first = service.reserve(wallet, 0, reservation=token)
    assert service.reserve(wallet, 1, reservation=token) == first
    assert service.reserve(wallet)["nonce"] == first["nonce"] + 1


def test_the_same_bytes_are_one_transaction_whoever_sends_them_again(service):
    wallet, receiver = service.wallet(), service.receiver
    number = service.reserve(wallet)
    raw = wallet.sign(number["nonce"], receiver, 7)
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda n: service.send(raw, number["reservation"], n % 2), range(8)))
    assert {a.status_code for a in answers} <= {200, 202}
    assert len({a.json()["txHash"] for a in answers}) == 1
    record = service.until_status(answers[0].json()["txHash"], "done")
    assert [a["purpose"] for a in record["attempts"]] == ["given"]
    again = service.send(raw, None)
    assert (again.status_code, again.headers["idempotency-replayed"], again.json()["status"]) == (
        200,
        "true",
        "confirmed",
    )
    assert service.machine.balance(receiver) == 7


# -- problem 3: numbers of failures before a send


def test_a_number_that_was_given_back_is_the_next_one(service):
    wallet = service.wallet()
    numbers = [service.reserve(wallet) for _ in range(3)]
    for n, gap in ((2, False), (0, True)):
        answer = service.post("address/nonce/recycle", service.on(wallet, reservation=numbers[n]["reservation"]))
        assert answer.json() == {"nonce": numbers[n]["nonce"], "recycled": True, "gap": gap}
    assert [service.reserve(wallet)["nonce"] for _ in range(3)] == [0, 2, 3]


def test_a_late_duplicate_recycle_is_refused(service):
    wallet = service.wallet()
    number = service.reserve(wallet)
    body = service.on(wallet, reservation=number["reservation"])
    assert service.post("address/nonce/recycle", body).status_code == 200
    assert service.reserve(wallet)["nonce"] == number["nonce"]
    late = service.post("address/nonce/recycle", body, 1)
    assert (late.status_code, late.json()["code"]) == (409, "reservation_over")
    assert service.reserve(wallet)["nonce"] == number["nonce"] + 1


def test_a_number_that_was_sent_is_never_given_back(service):
    wallet = service.wallet()
    number = service.reserve(wallet)
    assert service.send(wallet.sign(number["nonce"], service.receiver), number["reservation"]).status_code == 202
    answer = service.post("address/nonce/recycle", service.on(wallet, reservation=number["reservation"]))
    assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed")
    assert service.reserve(wallet)["nonce"] == number["nonce"] + 1


def test_an_unused_reservation_expires_and_what_waits_behind_it_lands(service):
    wallet, receiver = service.wallet(), service.receiver
    service.reserve(wallet, ttlSeconds=1)  # its caller dies here
    second = service.reserve(wallet)
    sent = service.send(wallet.sign(second["nonce"], receiver), second["reservation"]).json()
    assert service.machine.count(wallet.address) == 0
    until_sync(lambda: service.health(wallet)["gaps"] == [0], 60.0)
    with service.client() as client:
        done = client.send_signed(wallet.address, "local", lambda nonce: wallet.sign(nonce, receiver))
    assert done.nonce == 0
    service.until_status(sent["txHash"], "done")
    assert service.machine.balance(receiver) == 2


# -- problem 4: a stale read overwrites the counter


def test_a_chain_that_lags_never_lowers_the_counter(service):
    wallet, receiver = service.wallet(), service.receiver
    service.machine.rpc("evm_setAutomine", False)
    try:
        sent = []
        for n in range(4):
            number = service.reserve(wallet, n % 2)
            assert number["nonce"] == n  # the chain says 0 all the time
            sent.append(service.send(wallet.sign(n, receiver), number["reservation"]).json()["txHash"])
    finally:
        service.machine.rpc("evm_setAutomine", True)
        service.machine.rpc("evm_mine")
    for hash in sent:
        service.until_status(hash, "done")


def test_a_key_that_is_used_elsewhere_raises_the_counter_and_conflicts_are_told(service):
    wallet, receiver = service.wallet(), service.receiver
    number = service.reserve(wallet)
    service.machine.rpc("eth_sendRawTransaction", wallet.sign(0, receiver))
    service.machine.rpc("eth_sendRawTransaction", wallet.sign(1, receiver))
    service.until_count(wallet, 2)
    until_sync(lambda: service.health(wallet)["chainNonce"] == 2, 60.0)
    assert service.reserve(wallet)["nonce"] == 2
    answer = service.send(wallet.sign(0, receiver, 9), number["reservation"])
    assert answer.status_code == 409
    told = answer.json()
    assert {name: told[name] for name in ("error", "currentNonce", "attemptedNonce", "shouldRetry")} == {
        "error": "NONCE_CONFLICT",
        "currentNonce": service.health(wallet)["trackedNonce"],
        "attemptedNonce": 0,
        "shouldRetry": True,
    }
    assert told["code"] == "nonce_conflict"


# -- approach C: turns


def test_turns_are_one_at_a_time_in_the_order_asked(service):
    wallet, receiver = service.wallet(), service.receiver
    order: list[int] = []

    def work(n: int) -> str:
        with service.client(n % 2) as client, client.turn(wallet.address, "local", wait_s=20) as number:
            order.append(number.nonce)
            assert service.health(wallet)["reservedCount"] == 1
            return number.send(wallet.sign(number.nonce, receiver)).tx_hash

    with ThreadPoolExecutor(6) as callers:
        hashes = list(callers.map(work, range(6)))
    assert order == list(range(6))
    for hash in hashes:
        service.until_status(hash, "done")


def test_a_turn_whose_time_is_over_can_not_send(service):
    wallet = service.wallet()
    old = service.post("address/nonce/lock", service.on(wallet, ttlSeconds=1)).json()
    busy = service.post("address/nonce/lock", service.on(wallet, lockId="second", waitSeconds=0), 1)
    assert (busy.status_code, busy.json()["code"], busy.json()["lockId"]) == (429, "turn_taken", "second")
    new = service.post("address/nonce/lock", service.on(wallet, lockId="second", waitSeconds=20), 1).json()
    assert (new["nonce"], new["fence"]) == (old["nonce"], old["fence"] + 1)
    late = service.send(wallet.sign(old["nonce"], service.receiver), old["lockId"])
    assert (late.status_code, late.json()["error"]) == (409, "NONCE_CONFLICT")
    over = service.post("address/nonce/unlock", service.on(wallet, lockId=old["lockId"]))
    assert (over.status_code, over.json()["code"]) == (409, "reservation_over")
    done = service.post("address/nonce/unlock", service.on(wallet, lockId="second"))
    assert done.json() == {"unlocked": True, "recycled": True, "nonce": new["nonce"]}


# -- replacing, gaps, problems


def test_the_owner_replaces_what_does_not_land_and_either_may_land(service):
    wallet, receiver = service.wallet(), service.receiver
    service.machine.rpc("evm_setAutomine", False)
    try:
        number = service.reserve(wallet)
        first = service.send(wallet.sign(0, receiver, 5), number["reservation"]).json()["txHash"]
        until_sync(lambda: service.machine.rpc("eth_getTransactionByHash", first), 60.0)
        stranger = service.reserve(wallet)
        refused = service.send(wallet.sign(0, receiver, 6), stranger["reservation"])
        assert refused.json()["error"] == "NONCE_CONFLICT"
        second = service.send(wallet.sign(0, receiver, 7, gwei=200), number["reservation"]).json()["txHash"]
        until_sync(lambda: service.machine.rpc("eth_getTransactionByHash", second), 60.0)
    finally:
        service.machine.rpc("evm_setAutomine", True)
        service.machine.rpc("evm_mine")
    service.until_status(second, "done")
    replaced = service.until_status(first, "failed")
    assert replaced["error"]["code"] in ("replaced", "nonce_used")
    assert service.machine.balance(receiver) == 7


def test_numbers_sent_in_any_order_all_land(service):
    wallet, receiver = service.wallet(), service.receiver
    numbers = [service.reserve(wallet) for _ in range(5)]
    hashes = []
    for n in (4, 2, 3, 1):
        hashes.append(service.send(wallet.sign(n, receiver), numbers[n]["reservation"]).json()["txHash"])
    until_sync(lambda: service.health(wallet)["pendingCount"] == 4, 60.0)
    until_sync(lambda: all(service.record(h)["status"] == "inflight" for h in hashes), 60.0)
    assert service.machine.count(wallet.address) == 0
    hashes.append(service.send(wallet.sign(0, receiver), numbers[0]["reservation"]).json()["txHash"])
    for hash in hashes:
        service.until_status(hash, "done")
    assert service.machine.balance(receiver) == 5


def test_what_lacks_funds_is_held_and_lands_when_they_come(service):
    wallet, receiver = service.wallet(10**16), service.receiver
    with service.client() as client:
        poor = client.send_signed(wallet.address, "local", lambda n: wallet.sign(n, receiver, 10**18))
    held = service.until_status(poor.tx_hash, "held")
    assert held["error"]["reason"] == "insufficient_funds"
    service.machine.fund(wallet.address, 10**19)
    service.until_status(poor.tx_hash, "done")
    assert service.machine.balance(receiver) == 10**18


def test_health_tells_numbers_pending_and_gaps(service):
    wallet, receiver = service.wallet(), service.receiver
    numbers = [service.reserve(wallet) for _ in range(3)]
    sent = service.send(wallet.sign(2, receiver), numbers[2]["reservation"]).json()
    service.post("address/nonce/recycle", service.on(wallet, reservation=numbers[0]["reservation"]))
    told = service.health(wallet)
    assert (told["trackedNonce"], told["chainNonce"], told["pendingCount"], told["gapCount"]) == (3, 0, 1, 1)
    assert (told["gaps"], told["reservedCount"], told["keyless"]) == ([0], 1, True)
    assert told["oldestPendingAge"].endswith("s")
    [pending] = told["pending"]
    expected = {"txHash": sent["txHash"], "from": wallet.address, "networkId": "local", "nonce": 2, "status": "pending"}
    assert {name: pending[name] for name in expected} == expected
    assert pending["gasPrice"] == str(100 * 10**9)
    assert set(pending) == {*expected, "gasPrice", "submittedAt", "lastCheckedAt"}


# -- what is wrong is refused by name


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("address/nonce", {"address": "0x12", "networkId": "local"}, 422, "address"),
        ("address/nonce", {"address": "0x" + "11" * 20, "networkId": "mars"}, 422, "there are: local"),
        ("address/nonce", {"address": "0x" + "11" * 20}, 422, "networkId"),
        ("address/nonce", {"address": "0x" + "11" * 20, "networkId": 31337, "ttlSeconds": 0}, 422, "ttlSeconds"),
        ("transaction/sendRaw", {"signedTransaction": "0x02c0", "networkId": "local"}, 422, "signedTransaction"),
        ("transaction/sendRaw?dry_run=true", {"signedTransaction": "0x02c0", "networkId": "local"}, 422, "dry_run"),
        ("address/nonce/recycle", {"address": "0x" + "11" * 20, "networkId": "local"}, 422, "reservation"),
        ("getCurrentFee", {"networkId": 7}, 422, "networkId"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(service, path, body, status, says):
    answer = service.post(path, body)
    assert answer.status_code == status, answer.text
    assert says in answer.text


def test_bytes_without_a_reservation_are_refused(service):
    wallet = service.wallet()
    answer = service.send(wallet.sign(0, service.receiver), None)
    assert (answer.status_code, answer.json()["field"]) == (422, "reservation")
    for _ in range(2):  # before its first number, and after
        answer = service.send(wallet.sign(0, service.receiver), "made-up")
        assert (answer.status_code, answer.json()["error"]) == (409, "NONCE_CONFLICT")
        service.reserve(wallet)


def test_bytes_for_another_chain_or_of_another_key_are_refused(service):
    wallet, other = service.wallet(), service.wallet()
    number = service.reserve(wallet)
    answer = service.send(wallet.sign(0, service.receiver, chainId=1), number["reservation"])
    assert (answer.status_code, answer.json()["field"]) == (422, "signedTransaction")
    body = {"signedTransaction": other.sign(0, service.receiver), "networkId": "local", "address": wallet.address}
    answer = service.post("transaction/sendRaw", body | {"reservation": number["reservation"]})
    assert (answer.status_code, answer.json()["field"]) == (422, "address")


def test_an_address_that_is_signed_for_here_hands_out_no_numbers(service):
    hot = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    until_sync(lambda: service.http[0].get(f"/v1/lanes/evm:31337:{hot}").status_code == 200, 60.0)
    answer = service.post("address/nonce", {"address": hot, "networkId": "local"})
    assert answer.status_code == 409
    assert "signs by itself" in answer.json()["detail"]
    health = service.http[0].get("/evm/nonce/health", params={"address": hot, "networkId": "local"}).json()
    assert health["keyless"] is False


# -- approach B and fees


def test_a_transaction_is_signed_here_when_it_is_asked_for(service):
    hot, receiver = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", service.receiver
    body = {"networkId": "local", "from": hot, "to": receiver, "value": "5", "gasLimit": "21000"}
    answer = service.post("transaction/send?wait=20", body, headers={"Idempotency-Key": "send-1"})
    assert (answer.status_code, answer.json()["status"]) == (200, "done"), answer.text
    again = service.post("transaction/send", body, headers={"Idempotency-Key": "send-1"})
    assert again.json()["tx_hash"] == answer.json()["tx_hash"]
    assert service.machine.balance(receiver) == 5
    for wrong, field in (({**body, "from": receiver}, "from"), ({**body, "from": None, "pool": "wallets"}, "pool")):
        refused = service.post("transaction/send", wrong, headers={"Idempotency-Key": "send-2"})
        assert (refused.status_code, refused.json()["field"]) == (422, field)


def test_fees_are_what_the_chain_asks_for(service):
    told = service.post("getCurrentFee", {"networkId": 31337}).json()
    assert int(told["maxFeePerGas"]) >= int(told["baseFeePerGas"])
    assert int(told["gasPrice"]) > 0


# -- the client


def test_a_reservation_goes_back_only_if_nothing_was_sent(service):
    wallet, receiver = service.wallet(), service.receiver
    with service.client() as client:
        with pytest.raises(ZeroDivisionError), client.reserve(wallet.address, "local") as number:
            raise ZeroDivisionError
        assert number.nonce == 0
        with client.reserve(wallet.address, "local") as number:
            assert number.nonce == 0
            number.send(wallet.sign(0, receiver))
        with client.reserve(wallet.address, "local") as number:
            assert number.nonce == 1
            with pytest.raises(InvalidRequest):  # refused before anything was accepted
                number.send("0x02c0")
        with client.reserve(wallet.address, "local") as number:
            assert number.nonce == 1


def test_an_error_after_a_send_never_gives_the_number_back(service, monkeypatch):
    """A catch-all around sign and send recycles a number whose bytes are on their way."""
    wallet, receiver = service.wallet(), service.receiver
    with service.client() as client:
        recycled = []
        monkeypatch.setattr(client, "recycle_nonce", lambda *told: recycled.append(told))
        with suppress(ConnectionError), client.reserve(wallet.address, "local") as number:
            number.send(wallet.sign(0, receiver))
            raise ConnectionError("the reply was lost")
        assert recycled == []
    service.until_count(wallet, 1)


def test_a_conflict_is_retried_a_bounded_number_of_times(service):
    wallet, receiver = service.wallet(), service.receiver
    asked: list[int] = []

    def wrong(nonce: int) -> str:
        asked.append(nonce)
        return wallet.sign(nonce + 5, receiver)

    def right_at_last(nonce: int) -> str:
        asked.append(nonce)
        return wallet.sign(nonce + 5 if len(asked) < 3 else nonce, receiver)

    with service.client() as client:
        with pytest.raises(NonceConflict) as told:
            client.send_signed(wallet.address, "local", wrong, tries=3)
        assert (len(asked), told.value.should_retry) == (3, True)
        assert told.value.attempted_nonce == asked[-1] + 5
        asked.clear()
        sent = client.send_signed(wallet.address, "local", right_at_last, tries=3)
        assert len(asked) == 3
        with pytest.raises(NotPossible):
            client.recycle_nonce(wallet.address, "local", "nobody's")
    assert sent.nonce == asked[-1]


# -- who may


def test_basic_auth_takes_the_token_as_password_and_scopes_hold(redis7, anvil):
    def sha(token: str) -> str:
        return hashlib.sha256(token.encode()).hexdigest()

    tokens = "".join(
        f'[[api.tokens]]\nname = "{name}"\nsha256 = "{sha(name)}"\nscopes = ["submit", "read"]\n{more}\n'
        for name, more in (
            ("core", ""),
            ("elsewhere", '[api.tokens.limits]\npools = ["hot"]'),
            ("transfers", '[api.tokens.limits]\nkinds = ["evm.transfer"]'),
            ("careful", "[api.tokens.limits]\nmax_deposit = 5"),
        )
    )

    def basic(password: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"core:{password}".encode()).decode()}

    with nonce_service(anvil, redis7.url, workers=0, tokens=tokens) as service:
        wallet = service.wallet()
        body = service.on(wallet)
        assert service.post("address/nonce", body).status_code == 401
        assert service.post("address/nonce", body, headers=basic("wrong")).status_code == 401
        assert service.post("address/nonce", body, headers={"Authorization": "Basic ???"}).status_code == 401
        assert service.post("address/nonce", body, headers=basic("core")).json()["nonce"] == 0
        bearer = {"Authorization": "Bearer core"}
        assert service.post("address/nonce", body, headers=bearer).json()["nonce"] == 1
        for name in ("elsewhere", "transfers"):
            assert service.post("address/nonce", body, headers=basic(name)).status_code == 403
        number = service.post("address/nonce", body, headers=basic("careful")).json()
        raw = wallet.sign(number["nonce"], service.receiver, 6)
        told = {"signedTransaction": raw, "networkId": "local", "reservation": number["reservation"]}
        refused = service.post("transaction/sendRaw", told, headers=basic("careful"))
        assert (refused.status_code, refused.json()["field"]) == (403, "deposit")


async def test_the_async_client_reserves_takes_turns_and_retries(service):
    wallet, receiver = service.wallet(), service.receiver

    async def sign(nonce: int) -> str:
        return str(wallet.sign(nonce, receiver))

    async with AsyncClient(service.urls[0]) as client:
        with suppress(ZeroDivisionError):
            async with client.reserve(wallet.address, "local") as number:
                raise ZeroDivisionError
        async with client.reserve(wallet.address, 31337) as again:
            assert again.nonce == number.nonce == 0
            sent = await again.send(await sign(0))
        async with client.turn(wallet.address, "local") as turn:
            assert (turn.nonce, turn.number.fence) == (1, 1)
        done = await client.send_signed(wallet.address, "local", sign)
        assert (sent.nonce, done.nonce, done.sender) == (0, 1, wallet.address)
        record = await client.wait(done.idempotency_key, pool="wallets", timeout_s=60)
        assert record.tx_hash == done.tx_hash
        health = await client.nonce_health(wallet.address, "local")
        assert (health.tracked_nonce, health.gaps, health.keyless) == (2, (), True)
        assert (await client.current_fee("local")).max_fee > 0
        assert any(lane.keyless for lane in await client.lanes(pool="wallets"))
