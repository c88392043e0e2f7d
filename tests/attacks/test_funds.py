"""One caller asks for more than a lane has: that intent fails alone, and everybody else is served as before."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import Stage as Stack
from tests.api.stage import bearer
from tests.attacks.near_stage import token_lines
from tests.attacks.test_lying_node import near
from tests.conftest import HasUrl
from tests.devnet.process import Devnet, transfer
from tests.evm.machines import Anvil
from tests.evm.nonce_stage import Service, nonce_service
from tests.evm.stage import new_signer
from tests.runtime.stage import Stage
from tests.waiting import until_sync

NEAR, ETHER = 10**24, 10**18
HOT = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
BOB = new_signer().address


@pytest.fixture
def key() -> str:
    return f"k-{secrets.token_hex(8)}"


# -- NEAR


@pytest.fixture
def stack(redis7: HasUrl, devnet: Devnet) -> Iterator[Stack]:
    with Stack(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=2) as made:
        yield made.start()


def final(stack: Stack, key: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        record = stack.get(f"/v1/intents/{key}?wait=5").json()
        return record if record.get("status") in ("done", "failed", "cancelled") else None

    found = until_sync(ended, 40, what=f"{key} has ended")
    assert isinstance(found, dict)
    return found


def states(stack: Stack) -> set[str]:
    return {lane["state"] for lane in stack.get("/v1/lanes").json()["lanes"] if lane["pool"] == "main"}


def test_eight_transfers_of_90_million_near_stop_nobody(stack: Stack, key: str):
    """They stopped the whole pool: 503 for everybody, and cancelling them did not bring it back."""
    answers = []
    for n in range(8):
        answers.append(stack.transfer(f"{key}-greedy{n}", str(90_000_000 * NEAR)).status_code)
        answers.append(stack.transfer(f"{key}-honest{n}", str(n + 1)).status_code)
    assert set(answers) == {202}
    for n in range(8):
        greedy, honest = final(stack, f"{key}-greedy{n}"), final(stack, f"{key}-honest{n}")
        assert (greedy["status"], greedy["error"]["code"], greedy["error"]["spent"]) == (
            "failed",
            "insufficient_funds",
            "0",
        )
        assert greedy["attempts"] in ([], 0)
        assert honest["status"] == "done"
    assert states(stack) == {"active"}
    assert stack.transfer(f"{key}-after", "1", wait=20).json()["status"] == "done"


def test_a_lane_that_is_really_poor_pauses_and_goes_on_after_a_top_up(redis7: HasUrl, devnet: Devnet, key: str):
    """Below its reserve nothing fails: what was accepted is done as soon as somebody pays in."""
    more = f'reserve = "{2_000_000 * NEAR}"'  # twice what the account has
    with Stack(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=1, pool_more=more) as poor:
        poor.start()
        assert poor.transfer(key, "7").status_code == 202
        until_sync(lambda: states(poor) == {"paused"}, 20, what="the lane waits for funds")
        assert poor.get(f"/v1/intents/{key}").json()["status"] == "queued"
        for giver in devnet.told["accounts"][-2:]:
            _, sent = devnet.sign(giver, poor.account_id, transfer(600_000 * NEAR))
            devnet.rpc("send_tx", {"signed_tx_base64": sent, "wait_until": "FINAL"})
        assert final(poor, key)["status"] == "done"
        until_sync(lambda: states(poor) == {"active"}, 20, what="the lane goes on")


def test_cancelling_what_a_poor_lane_waits_for_brings_it_back(redis7: HasUrl, devnet: Devnet, key: str):
    more = f'[pools.main.policy]\nmax_deposit = "{5_000_000 * NEAR}"'
    with Stack(redis7.url, f"t{secrets.token_hex(6)}", devnet, lanes=1, pool_more=more) as poor:
        poor.start()
        assert poor.transfer(f"{key}-dear", str(4_000_000 * NEAR)).status_code == 202
        poor.transfer(f"{key}-cheap", "1")
        until_sync(lambda: states(poor) == {"paused"}, 20, what="the lane waits for funds")
        assert poor.post(f"/v1/intents/{key}-dear/cancel", {}).json()["status"] == "cancelled"
        until_sync(lambda: states(poor) == {"active"}, 20, what="the lane goes on")
        assert poor.transfer(f"{key}-later", "2", wait=20).json()["status"] == "done"


async def test_one_node_cannot_end_an_intent_by_telling_a_low_balance(redis_lanes: Stage) -> None:
    stage = redis_lanes

    def poor(method: str, params: Any, answer: dict[str, Any]) -> dict[str, Any]:
        if method == "query" and "amount" in answer.get("result", {}):
            answer["result"]["amount"] = str(10**21)  # the fee, and not more
        return answer

    async with near(stage, poor) as (first, _, _):
        await stage.done(await stage.submit(stage.transfer("a", NEAR), stage.transfer("b", 2 * NEAR)))
        assert first.told > 0
    assert stage.amounts() == [NEAR, 2 * NEAR]


# -- EVM


@pytest.fixture(scope="module")
def service(redis7: HasUrl) -> Iterator[Service]:
    with (
        Anvil() as node,
        nonce_service(node, redis7.url, tokens=token_lines("all", ["submit", "read", "operate"])) as s,
    ):
        s.http[0].headers.update(bearer("all"))
        path = f"/v1/lanes/evm:31337:{HOT}"
        until_sync(lambda: s.http[0].get(path).status_code == 200, 60.0, what="a lane is there")
        yield s


def test_ten_to_the_27_wei_and_endless_gas_stop_nobody(service: Service, key: str):
    http = service.http[0]
    count = service.machine.count(HOT)

    def post(name: str, payload: dict[str, Any]) -> int:
        body = {"pool": "hot", "to": BOB, **payload}
        return http.post("/v1/evm/transactions", json=body, headers={"Idempotency-Key": f"{key}-{name}"}).status_code

    for n in range(8):
        assert post(f"greedy{n}", {"value": str(10**27 + n)}) == 202
        assert post(f"honest{n}", {"value": "1"}) == 202
    assert post("endless", {"value": "1", "gas": str(2**60), "simulate": False}) == 202
    assert post("last", {"value": "1"}) == 202

    def ended(name: str) -> dict[str, Any] | None:
        record = http.get(f"/v1/intents/{key}-{name}").json()
        return record if record.get("status") in ("done", "failed") else None

    for name in (*(f"greedy{n}" for n in range(8)), "endless"):
        record = until_sync(lambda name=name: ended(name), 40, what=f"{name} has ended")
        error = record["error"]
        assert (record["status"], error["code"], error["spent"]) == ("failed", "insufficient_funds", "0"), name
    for name in (*(f"honest{n}" for n in range(8)), "last"):
        record = until_sync(lambda name=name: ended(name), 40, what=f"{name} has ended")
        assert record["status"] == "done", name
    assert service.machine.count(HOT) == count + 9, "nothing was spent on the others"
