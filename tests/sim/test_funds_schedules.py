"""Lanes of one account share its balance, some callers ask for more than it has, and now and then the funds go away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.sim.cast import ADMIN, RECEIVER, RELAYER
from tests.sim.checker import Checked
from tests.sim.history import Answered, Broke
from tests.sim.plan import draw
from tests.sim.world import World, run
from txmanager.core import funds
from txmanager.core.funds import Cost, Purse, Reserve, Word
from txmanager.core.models import Intent, new_intent
from txmanager.core.states import Status
from txmanager.devnet import fees
from txmanager.devnet.model import Account

SEEDS = range(40)
HUNTED = range(60)


class Greedy(World):
    """Every third intent asks for 90 million NEAR. It must end alone; nobody else may end for want of funds."""

    def _intent(self, n: int) -> Intent:
        intent = super()._intent(n)
        if n % 3:
            return intent
        payload = {**intent.payload, "receiver_id": "bob.near", "amount": str(90_000_000 * 10**24 + n)}
        made = new_intent(key=intent.id.key, pool=intent.id.pool, kind=intent.kind, payload=payload)
        return replace(made, max_age_s=intent.max_age_s)

    def evidence(self) -> Checked:
        for fact in [fact for fact in self.history.facts if isinstance(fact, Answered) and fact.by == "end"]:
            error = (fact.outcome.error if fact.outcome is not None else None) or {}
            greedy, poor = int(fact.id.key[1:]) % 3 == 0, error.get("code") == "insufficient_funds"
            if fact.status is Status.FAILED and poor and not greedy:
                self.history.note(Broke(self.loop.time(), f"{fact.id.key} failed because the lane was poor"))
            if greedy and fact.status is Status.DONE:
                self.history.note(Broke(self.loop.time(), f"{fact.id.key} was done"))
        return super().evidence()


class Poor(Greedy):
    """The account is empty when the workers start, and is paid into later."""

    async def main(self) -> None:
        account: Account = self.network.chain.state.get((RELAYER.account_id,))
        assert account.storage_usage <= fees.FREE_STORAGE
        most = account.amount - 3 * 10**20  # what is left is less than any transfer may cost
        self._pay(RELAYER.account_id, ADMIN.public_key, RECEIVER.account_id, most)
        for _ in range(6):  # until that is final
            await asyncio.sleep(self.plan.block_ms / 1000)
            self.nodes.tick()
        self.loop.later(12.0, self._fund)
        await super().main()


@contextmanager
def too_much_stops_the_lane() -> Iterator[None]:
    """As it was: whoever asks for too much is taken for a poor lane."""
    sound = funds.judge

    def judge(*told: object) -> funds.Finding:
        found = sound(*told)  # type: ignore[arg-type]
        return replace(found, word=Word.PAUSE) if found.word is Word.FAIL else found

    with patch("txmanager.runtime.lane.wallet.judge", judge):
        yield


@contextmanager
def a_poor_lane_fails_everybody() -> Iterator[None]:
    def nothing(self: Reserve, purse: Purse, cost: Cost) -> int:
        return 0

    with patch.object(Reserve, "of", nothing):
        yield


def test_who_asks_for_too_much_ends_alone_and_a_poor_lane_ends_nobody() -> None:
    ends = []
    for seed in SEEDS:
        result = run(draw(seed), kind=Poor if seed % 2 else Greedy)
        assert not result.violations, (seed, result.violations[:3])
        ends.append(result.ends)
    assert sum(some["failed"] for some in ends) > len(SEEDS)


@pytest.mark.parametrize("bug", [too_much_stops_the_lane, a_poor_lane_fails_everybody])
def test_a_seeded_bug_of_the_rule_is_caught(bug) -> None:
    with bug():
        assert any(run(draw(seed), kind=Poor).violations for seed in HUNTED), f"{bug.__name__} went through unseen"
