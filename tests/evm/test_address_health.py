"""The nonce service and a monitor tell the same of an address: both ask `core.health`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from txmanager.core.health import Limits, Reading
from txmanager.core.models import LaneSpec
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.addresses import Addresses
from txmanager.runtime.care.monitor import Monitor

ADDRESS = "0x" + "11" * 20
LANE = f"evm:1:{ADDRESS}"


class Counted:
    """A network whose chain has used no number of the address."""

    chain = SimpleNamespace(lane=lambda address: LANE, address=lambda name, address: address)
    network = "local"

    def desk(self, network: object) -> Any:
        return self

    async def count(self, desk: object, address: str, *, fresh: bool = False) -> tuple[int, int]:
        return 0, 0


class Read:
    async def read(self, lane: str, hashes: object) -> Reading:
        return Reading(latest=0, balance=1, height=9)


async def test_numbers_that_a_ledger_forgot_are_gaps_for_both() -> None:
    """Nothing was recorded above them, so comparing with what is in flight alone would not show them."""
    ledger = MemoryLedger()
    await ledger.register(LaneSpec(LANE, "p"))
    fence = (await ledger.lease(LANE, "w", "token", 60_000)).fence
    await ledger.baseline(fence, 0)
    await ledger.baseline(fence, 2, operator=True)
    lane = await ledger.lane(LANE)
    assert lane is not None
    told = await Addresses(ledger, Counted()).health("local", ADDRESS)  # type: ignore[arg-type]
    watched: Any = SimpleNamespace(reader=Read(), limits=Limits())
    seen = await Monitor(ledger, {}).look(lane, watched)
    assert told.gaps == seen.gaps == (0, 1)
