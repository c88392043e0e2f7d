"""Accounts, gas keys and allowances that run low: who is paid, by which action, and what an operator is told."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from tests.api.stage import Program, Stage, bearer
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.waiting import until_sync
from txmanager.chains.near.family import FAMILY
from txmanager.chains.near.purses import PURSES
from txmanager.cli import app
from txmanager.core.chain import NonceView, Readings
from txmanager.core.funds import Funds, Purse
from txmanager.core.models import LaneSpec
from txmanager.core.purses import Marks
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.billing import Billing
from txmanager.runtime.care.purses import Cared, PurseKeeper

NEAR = 10**24
KEY = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
ACCOUNT = "near:n:relayer.near"


def test_all_keys_share_the_account_and_all_indexes_share_their_gas_key():
    assert PURSES.of(f"{ACCOUNT}:{KEY}", "account") == PURSES.of(f"{ACCOUNT}:{KEY}:7", "account") == ACCOUNT
    assert (
        PURSES.of(f"{ACCOUNT}:{KEY}:3", "gas_key") == PURSES.of(f"{ACCOUNT}:{KEY}:7", "gas_key") == f"{ACCOUNT}:{KEY}"
    )


def test_the_monitor_pays_by_transfers_and_never_adds_a_key():
    assert PURSES.pay(ACCOUNT, 5) == ("near.transfer", {"receiver_id": "relayer.near", "amount": "5"})
    kind, payload = PURSES.pay(f"{ACCOUNT}:{KEY}", 5)
    assert (kind, payload["receiver_id"]) == ("near.transaction", "relayer.near")
    assert payload["actions"] == [{"type": "transfer_to_gas_key", "public_key": KEY, "amount": "5"}]
    reading = FAMILY.reading(None, None)(kind, payload)
    assert reading.refusal is None
    assert reading.own_account == frozenset(), "anybody may fill a gas key up"


class Chain:
    def __init__(self, *purses: Purse) -> None:
        self.purses, self.asked = purses, 0

    async def nonce(self, lane: str) -> NonceView:
        self.asked += 1
        return NonceView(1, 1, 0, Funds(self.purses, 1))

    async def readings(self, lane: str, first: NonceView) -> Readings:
        return Readings({"n": first})


async def test_a_low_allowance_names_the_command_that_renews_the_key():
    ledger, chain = MemoryLedger(), Chain(Purse("account", 9 * NEAR), Purse("allowance", 5, deposits=False))
    await ledger.register(LaneSpec(f"{ACCOUNT}:{KEY}", "relayer"))
    cared = Cared("n", chain, PURSES, {"account": Marks(NEAR), "allowance": Marks(NEAR)})  # type: ignore[arg-type]
    with capture_logs() as logs:
        found = await PurseKeeper(ledger, {"near:n": cared}, Billing()).check_all()
    assert [(one.kind, one.low) for one in found] == [("account", False), ("allowance", True)]
    [line] = [line for line in logs if line["event"] == "purse alert"]
    assert line["purse"] == f"{ACCOUNT}:{KEY}"
    assert "txmanager keys renew" in line["do"]


async def test_a_purse_is_read_once_however_many_lanes_share_it():
    ledger, chain = MemoryLedger(), Chain(Purse("account", 9 * NEAR), Purse("gas_key", NEAR, deposits=False))
    for n in range(50):
        await ledger.register(LaneSpec(f"{ACCOUNT}:{KEY}:{n}", "relayer"))
    keeper = PurseKeeper(ledger, {"near:n": Cared("n", chain, PURSES)}, Billing())  # type: ignore[arg-type]
    assert [one.purse for one in await keeper.check_all()] == [ACCOUNT, f"{ACCOUNT}:{KEY}"]
    assert chain.asked == 1


# -- the programs, on a devnet


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(accounts=16, keys=3, block_ms=100) as running:
        yield running


class Monitored(Stage):
    """A pool of its own account with two keys and a gas key, and a treasury of another account."""

    def __init__(self, redis_url: str, devnet: Devnet, budget: str) -> None:
        super().__init__(redis_url, f"t{secrets.token_hex(6)}", devnet, lanes=2, spare=False)
        treasury = devnet.told["accounts"][-1]
        (self.folder / "treasury.json").write_text(json.dumps([treasury]))
        self.treasury_id, self.start_balance = treasury["account_id"], self.balance(self.account_id)
        low, high = self.start_balance + 5 * NEAR, self.start_balance + 20 * NEAR
        self.high = high
        pools, _, rest = self.config.read_text().partition("[worker]")
        self.config.write_text(
            f"""{pools}
[pools.treasury]
network = "localnet"
account = "{self.treasury_id}"
keys = ["file:{self.folder}/treasury.json"]
[pools.treasury.policy]
budget = [{{ network = "localnet", amount = "{budget}", per = "1d" }}]

[monitor]
period_s = 0.2
[monitor.networks.localnet]
low = "{low}"
high = "{high}"
gas_key = {{ low = "1 NEAR", high = "3 NEAR" }}
treasury = "treasury"

[worker]{rest}"""
        )
        self.monitors = [Program("monitor", self.config) for _ in range(2)]

    def balance(self, account_id: str) -> int:
        return int(self.devnet.rpc("query", _question("view_account", account_id=account_id))["amount"])

    def close_all(self) -> None:
        for program in (*self.monitors, self.worker, self.api):
            program.kill()


def _question(request: str, **more: str) -> dict[str, str]:
    return {"request_type": request, "finality": "final", **more}


def paid_to(stage: Monitored) -> list[dict[str, object]]:
    """What the treasury's intents became, by the API."""
    listed = stage.client.get("/v1/intents?pool=treasury&limit=100", headers=bearer()).json()["intents"]
    return [one for one in listed if one["idempotency_key"].startswith("top-up:")]


def test_monitors_killed_at_any_moment_pay_an_account_once(redis7: HasUrl, devnet: Devnet):
    stage = Monitored(redis7.url, devnet, "2000000 NEAR")
    try:
        stage.start()
        before = stage.balance(stage.treasury_id)
        for n in range(12):  # kill -9, each a little later in its life than the one before
            monitor = stage.monitors[n % 2].start()
            if n % 3 == 2:
                until_sync(lambda: paid_to(stage), 30, what="somebody asked for a top-up")
            monitor.kill()
        for monitor in stage.monitors:
            monitor.start()
        until_sync(lambda: stage.balance(stage.account_id) >= stage.high, 30, what="the account is filled up")

        def ended() -> bool:
            return all(one["status"] == "done" for one in paid_to(stage))

        until_sync(ended, 30)
        [record] = paid_to(stage)
        assert stage.balance(stage.account_id) == stage.high, "exactly to its high: paid once"
        assert before - stage.balance(stage.treasury_id) < 21 * NEAR
        assert record["kind"] == "near.transfer"

        def told() -> dict[str, Any]:
            answer = CliRunner().invoke(app, ["treasury", "--json", "--config", str(stage.config)])
            assert answer.exit_code == 0, (answer.output, answer.exception)
            return dict(json.loads(answer.stdout))

        until_sync(lambda: told()["treasuries"][0]["per_day"] != "0", what="its budget was corrected behind its end")
        shown = told()
        [treasury] = shown["treasuries"]
        assert 20 * NEAR < int(treasury["per_day"]) < 21 * NEAR
        assert treasury["days_left"] > 1000
        purses = {one["purse"]: one for one in shown["purses"]}
        mine = purses[f"near:localnet:{stage.account_id}"]
        assert not mine["is_low"]
        assert 20 * NEAR < int(mine["paid_in_per_day"]) < 21 * NEAR
        assert purses[f"near:localnet:{stage.treasury_id}"]["treasury"]
        plain = CliRunner().invoke(app, ["treasury", "--config", str(stage.config)])
        assert "days left" in plain.stdout
    finally:
        stage.close_all()
