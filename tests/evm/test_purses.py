"""Addresses that run low, on a real node: the treasury fills them up once, within its budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from structlog.testing import capture_logs

from tests.evm.stage import CHAIN_ID, Stage, lane_of, new_signer
from tests.waiting import until
from txmanager.core.models import LaneSpec
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.care.purses import PurseKeeper, PurseSeen
from txmanager.settings import Settings
from txmanager.wiring import build_purses

ETHER = 10**18
POOL = "p"


def settings(url: str, budget: str) -> Settings:
    policy = {"max_cost": str(2 * ETHER), "budget": [{"network": "anvil", "amount": budget, "per": "1d"}]}
    network = {"chain": "evm", "chain_id": CHAIN_ID, "rpc": [{"url": url}]}
    marks = {"low": "0.1 ETH", "high": "1 ETH", "treasury": "treasury"}
    return Settings.model_validate(
        {
            "networks": {"anvil": network},
            "pools": {"treasury": {"network": "anvil", "policy": policy}},
            "monitor": {"networks": {"anvil": marks}},
        }
    )


@dataclass
class Kept:
    settings: Settings
    ledger: MemoryLedger
    cared: Any

    def another(self) -> PurseKeeper:
        """As after a restart, or on another machine."""
        return PurseKeeper(self.ledger, self.cared, build_billing(self.settings))


@asynccontextmanager
async def kept(url: str, ledger: MemoryLedger, budget: str = "10 ETH") -> AsyncIterator[Kept]:
    told = settings(url, budget)
    cared, close = build_purses(told, ledger)
    yield Kept(told, ledger, cared)
    await close()


def alert(keeper: PurseKeeper, purse: str, name: str) -> float | None:
    labels = {"purse": purse, "kind": "account", "alert": name}
    return keeper.metrics.registry.get_sample_value("txmanager_purse_alert", labels)


def seen(found: list[PurseSeen], purse: str) -> PurseSeen:
    [one] = [one for one in found if one.purse == purse]
    return one


async def test_many_monitors_fill_a_low_address_up_once_and_the_treasury_never_pays_itself(make_anvil):
    anvil, ledger = make_anvil(), MemoryLedger()
    poor, rich = new_signer(), new_signer()
    stage = Stage(anvil, [poor, rich], ledger=ledger, pools={1: "treasury"})
    anvil.fund(poor.address, ETHER // 100)
    with capture_logs() as logs:
        async with stage, kept(anvil.url, ledger) as keeping:
            keepers = [keeping.another() for _ in range(3)]
            await asyncio.gather(*(one.check_all() for one in keepers))
            assert sum(one.metrics.top_ups.labels(lane_of(poor))._value.get() for one in keepers) == 1
            await until(lambda: anvil.balance(poor.address) == ETHER, 20.0, what="filled up to its high")

            async def booked() -> bool:
                [use] = await keepers[0].spending([])
                return use.per_day > 0

            await until(booked, 30.0, what="the payment ended, and its cost is booked")
            anvil.fund(poor.address, ETHER // 100)  # spent again, within the same span
            for one in (*keepers, keeping.another()):
                await one.check_all()
            assert anvil.count(rich.address) == 1, "paid more than once"
            assert alert(keepers[0], lane_of(poor), "low") == 1
            assert alert(keepers[0], lane_of(rich), "low") == 0
            anvil.fund(rich.address, 5)
            found = seen(await keepers[0].check_all(), lane_of(rich))
            assert found.low
            assert found.treasury
            [use] = await keepers[0].spending([found])
            assert use.balance == 5
            assert ETHER - ETHER // 100 < use.per_day < 1.01 * ETHER
            assert use.days_left is not None
            assert use.days_left < 1
    told = [line for line in logs if line["event"] == "top-up asked for"]
    assert [line["purse"] for line in told] == [lane_of(poor)]
    assert told[0]["amount"] == str(ETHER - ETHER // 100)


async def test_what_the_budget_does_not_pay_raises_an_alert_and_goes_on_when_an_operator_raises_it(make_anvil):
    anvil, ledger = make_anvil(), MemoryLedger()
    first, second, rich = new_signer(), new_signer(), new_signer()
    stage = Stage(anvil, [first, second, rich], ledger=ledger, pools={2: "treasury"})
    for poor in (first, second):
        anvil.fund(poor.address, 5)
    with capture_logs() as logs:
        async with stage, kept(anvil.url, ledger, "2 ETH") as keeping:
            keeper = keeping.another()
            await keeper.check_all()
            lanes = [lane_of(first), lane_of(second)]
            refused = [lane for lane in lanes if alert(keeper, lane, "top_up_refused")]
            assert len(refused) == 1, "the budget holds one worst case"
            assert any(line["event"] == "top-up refused" and line["purse"] == refused[0] for line in logs)
            await ledger.override("pool:treasury/1d", 100 * 10**9, None)
            anvil.fund(first.address if refused[0] == lanes[0] else second.address, 7)
            await keeper.check_all()
            assert not any(alert(keeper, lane, "top_up_refused") for lane in lanes)
            full = [ETHER, ETHER]
            both = lambda: [anvil.balance(poor.address) for poor in (first, second)]  # noqa: E731
            await until(lambda: both() == full, 20.0, what="both are filled up in the end")


async def test_an_address_whose_key_the_caller_holds_is_only_alerted_about(make_anvil):
    anvil, ledger = make_anvil(), MemoryLedger()
    signer = new_signer()
    anvil.fund(signer.address, 1)
    await ledger.register(LaneSpec(lane_of(signer), POOL, keyless=True))
    await ledger.register(LaneSpec(lane_of(new_signer()), "treasury"))
    with capture_logs() as logs:
        async with kept(anvil.url, ledger) as keeping:
            keeper = keeping.another()
            for _ in range(3):
                assert seen(await keeper.check_all(), lane_of(signer)).keyless
            assert alert(keeper, lane_of(signer), "low") == 1
            assert not [r for s in ledger.stores.values() for r in s.records.values()]
            said = [line for line in logs if line["event"] == "purse alert" and line["purse"] == lane_of(signer)]
            assert [line["alert"] for line in said] == ["low"], "once, however many rounds it lasts"
            anvil.fund(signer.address, ETHER)
            await keeper.check_all()
            assert alert(keeper, lane_of(signer), "low") == 0
            assert any(line["event"] == "purse alert over" for line in logs)
            await ledger.forget_lane(lane_of(signer))
            await keeper.check_all()


async def test_a_top_up_is_an_ordinary_intent_with_its_charge_and_its_name():
    ledger = MemoryLedger()
    treasury, purse = "evm:31337:0x" + "aa" * 20, "evm:31337:0x" + "bb" * 20
    await ledger.register(LaneSpec(treasury, "treasury"))
    async with kept("http://127.0.0.1:1", ledger) as keeping:
        cared = keeping.cared["evm:31337"]

        async def balance() -> int:
            return 5

        pay = cared.top_ups.pay
        made = await pay(purse, cared.marks["account"], balance)
        assert made.key.startswith(f"top-up:{purse}:")
        [record] = ledger.stores[treasury].records.values()
        assert (record.intent.kind, dict(record.intent.payload)) == (
            "evm.transfer",
            {"to": purse[-42:], "value": str(ETHER - 5)},
        )
        assert record.intent.metadata == {"top_up": purse}
        charge = record.intent.limits["charge"]
        assert [name for name, _ in charge["budgets"]] == [f"purse:{purse}", f"paid-into:{purse}", "pool:treasury/1d"]
        assert await pay(purse, cared.marks["account"], balance) is None, "one is on its way"
        await ledger.cancel(record.id)
        await ledger.retire(await ledger.unretired(treasury, 9))
        assert (await ledger.read(record.id)).status is Status.CANCELLED

        async def another() -> int:
            return 6

        again = await pay(purse, cared.marks["account"], another)
        assert again is not None, "nothing was signed, so nothing was paid"
