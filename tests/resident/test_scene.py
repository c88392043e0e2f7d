"""A short `cloudflare` scene: every sort of kill, a twin, four lanes. `-m tests.resident.scene` plays the long one."""

from __future__ import annotations

import asyncio

from tests.devnet.process import Devnet
from tests.resident.conftest import Make
from tests.resident.node_door import NodeDoor
from tests.resident.scene import SORTS, Cloudflare
from tests.resident.test_resident import new_key, post, transfer
from tests.servers.resident import Resident
from tests.waiting import until, until_sync


async def test_no_kill_loses_doubles_or_reorders_an_intent():
    result = await Cloudflare(10, seed=1).play()
    assert result["violations"] == []
    assert set(result["counts"]) == set(SORTS)
    assert result["accepted"] == result["unique"] == result["final"] > 20
    assert (result["resigned"], result["invalid_nonce"]) == (0, 0)


async def test_what_was_accepted_wakes_the_lane_after_a_kill_without_anybody_asking(
    make_resident: Make, devnet: Devnet
):
    """The append's own transaction sets the alarm: no caller and no cron is needed."""

    def away(_method: str) -> None:
        raise ConnectionError("no node answers")

    async with NodeDoor(devnet.url, None) as door:
        door.before = away
        resident = await asyncio.to_thread(make_resident, door.url, lanes=1)
        client, key = resident.client(), new_key()
        told = await asyncio.to_thread(post, client, transfer(3), key, "/v1/intents")
        assert told.status_code == 202
        await asyncio.to_thread(resident.kill)
        door.before = lambda _method: None
        door.sent.clear()
        await asyncio.to_thread(resident.spawn)
        await until(lambda: door.sent, 30, what="it was sent by the alarm alone")
        record = await asyncio.to_thread(client.get, f"/v1/intents/{key}?wait=30")
        assert record.json()["status"] == "done"


async def test_an_idle_lane_asks_nobody_anything(make_resident: Make, devnet: Devnet):
    """No alarm and no request: the loop's epoch stands still, and so do the node's counters."""
    async with NodeDoor(devnet.url, None) as door:
        resident = await asyncio.to_thread(make_resident, door.url, lanes=1)
        client, [lane] = resident.client(), resident.lanes
        assert (await asyncio.to_thread(post, client, transfer(3), new_key())).status_code == 200
        ledger = resident.ledger()
        try:

            async def rests() -> bool:
                before, found = dict(door.asked), await ledger.lane(lane)
                await asyncio.sleep(3.0)  # three times the alarm of a lane that works
                after = await ledger.lane(lane)
                assert found is not None
                assert after is not None
                return (found.epoch, before) == (after.epoch, dict(door.asked))

            await until(rests, 30, what="nothing happens any more")
        finally:
            await ledger.close()


def test_settings_that_are_wrong_are_named_in_the_log_and_not_to_callers(devnet: Devnet):
    account = devnet.account(0)
    with Resident(account["account_id"], account["keys"][:1], [devnet.url], settings={"surplus": 1}) as running:
        told = post(running.client(), transfer(), new_key())
        assert (told.status_code, told.json()["code"]) == (500, "error")
        assert "SETTINGS" not in told.text
        until_sync(lambda: "SETTINGS.surplus" in running.said, 10, what="the log names the field")
