"""What may be spent: charged once by its life, corrected once, and never more than a budget has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from txmanager.core.budgets import (
    EVER,
    MOST_UNITS,
    SLOTS,
    Budget,
    Charge,
    Charged,
    Correction,
    OpenCharge,
    Usage,
    noted_charge,
)
from txmanager.core.errors import InvalidInput
from txmanager.core.ledger import APPEND_WITHIN_MS, Claim, Entry, Settlement
from txmanager.core.models import IntentId, Outcome
from txmanager.core.states import Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, POOL, Stage

HOUR_MS = 3_600_000
TOKEN = Budget("token:bob/net/1h", 100, HOUR_MS)
WIDE = Budget("pool:pool/1h", 1_000, HOUR_MS)


async def charge(stage: Stage, life: str, units: int, *budgets: Budget, age: int = 0, key: str = "key") -> Charged:
    born = await stage.ledger.now_ms() - age
    [answer] = await stage.ledger.charge([Charge(IntentId(POOL, key), life, born, units, budgets or (TOKEN,))])
    return answer


async def correct(stage: Stage, life: str, units: int, budget: Budget = TOKEN, ago: int = 0) -> int:
    at = await stage.ledger.now_ms() - ago
    return await stage.ledger.correct([Correction(budget.name, budget.per_ms, life, units, at)])


async def usage(stage: Stage, budget: Budget = TOKEN) -> Usage:
    [found] = await stage.ledger.usage([budget.name])
    return found


async def due(stage: Stage) -> list[OpenCharge]:
    return [one for slot in range(SLOTS) for one in await stage.ledger.due_charges(slot, 100)]


async def counted(stage: Stage, budget: Budget = TOKEN) -> tuple[int, int]:
    """Open, and spent within the span."""
    found = await usage(stage, budget)
    return found.open, found.costs(budget)


# -- charging


@promise
async def budget_holds_open_charges_and_costs_together(stage: Stage) -> None:
    assert (await charge(stage, "a", 60)).word == "charged"
    refused = await charge(stage, "b", 41)
    assert (refused.word, refused.budget) == ("exhausted", TOKEN)
    assert refused.usage is not None
    assert (refused.usage.open, refused.usage.left(TOKEN)) == (60, 40)
    assert (await charge(stage, "c", 40)).word == "charged"
    assert await correct(stage, "a", 30) == 1
    assert await counted(stage) == (40, 30)
    assert (await charge(stage, "d", 31)).word == "exhausted", "what was spent counts, too"
    assert (await charge(stage, "d", 30)).word == "charged"
    assert await counted(stage) == (70, 30)


@promise
async def charge_that_is_repeated_is_neither_checked_nor_counted_again(stage: Stage) -> None:
    assert await charge(stage, "a", 60) == Charged("charged", {TOKEN.name: 1})
    again = stage.again()
    now = await stage.ledger.now_ms()
    [known] = await again.charge([Charge(IntentId(POOL, "key"), "a", now, 90, (replace(TOKEN, limit=1),))])
    assert known == Charged("charged", {TOKEN.name: 2})
    assert await counted(stage) == (60, 0), "what was charged first stands"
    assert (await charge(stage, "a", 90, age=2 * APPEND_WITHIN_MS)).word == "charged", "an append says what it is"
    assert await correct(stage, "a", 0) == 1
    assert await counted(stage) == (0, 0)


@promise
async def charge_of_an_old_claim_is_stale_and_of_a_future_one_ahead(stage: Stage) -> None:
    assert (await charge(stage, "a", 1, age=APPEND_WITHIN_MS + 10_000)).word == "stale"
    assert (await charge(stage, "a", 1, age=-APPEND_WITHIN_MS - 10_000)).word == "ahead"
    assert await counted(stage) == (0, 0)


@promise
async def charge_is_held_against_all_of_its_budgets_or_none(stage: Stage) -> None:
    assert (await charge(stage, "a", 60, TOKEN, WIDE)).turns == {TOKEN.name: 1, WIDE.name: 1}
    refused = await charge(stage, "b", 50, WIDE, TOKEN)
    assert (refused.word, refused.budget) == ("exhausted", TOKEN)
    assert await counted(stage, WIDE) == (60, 0)
    assert (await charge(stage, "b", 40, TOKEN, WIDE)).word == "charged"
    assert await counted(stage) == (100, 0)
    assert await counted(stage, WIDE) == (100, 0)
    [full, other] = await stage.ledger.charge(
        [
            Charge(IntentId(POOL, life), life, await stage.ledger.now_ms(), 1, (one,))
            for life, one in (("c", TOKEN), ("d", WIDE))
        ]
    )
    assert (full.word, other.word) == ("exhausted", "charged"), "each of a batch has its own answer"


@promise
async def charge_that_one_budget_knows_already_is_still_checked_by_the_other(stage: Stage) -> None:
    """Whoever charged first died after one of two places of a cluster."""
    assert (await charge(stage, "a", 60, WIDE)).word == "charged"
    assert (await charge(stage, "x", 50, TOKEN)).word == "charged"
    refused = await charge(stage, "a", 60, WIDE, TOKEN)
    assert (refused.word, refused.budget) == ("exhausted", TOKEN)
    assert await counted(stage, WIDE) == (60, 0), "somebody may still go on from there: it is not taken back"
    assert (await charge(stage, "a", 50, WIDE, TOKEN)).word == "charged"
    assert await counted(stage) == (100, 0)


@promise
async def charges_below_one_or_above_2_to_the_53_are_refused(stage: Stage) -> None:
    for units in (0, -1, MOST_UNITS + 1):
        with pytest.raises(InvalidInput, match="units"):
            await charge(stage, "a", units)
    with pytest.raises(InvalidInput, match="per"):
        await charge(stage, "a", 1, Budget("x", 1, 59_999))
    with pytest.raises(InvalidInput, match="name"):
        await charge(stage, "a", 1, Budget("a b", 1))


@promise
async def sums_near_2_to_the_53_are_exact(stage: Stage) -> None:
    whole = Budget("pool:large/ever", MOST_UNITS, EVER)
    assert (await charge(stage, "a", MOST_UNITS - 2, whole)).word == "charged"
    assert (await charge(stage, "b", 1, whole)).word == "charged"
    assert (await charge(stage, "c", 2, whole)).word == "exhausted"
    assert (await charge(stage, "c", 1, whole)).word == "charged"
    assert (await usage(stage, whole)).open == MOST_UNITS
    await correct(stage, "a", MOST_UNITS - 3, whole)
    assert (await usage(stage, whole)).left(whole) == 1
    await correct(stage, "b", MOST_UNITS, whole)
    assert await counted(stage, whole) == (1, MOST_UNITS), "an excess is booked, and never beyond what a sum can hold"


# -- taking back


@promise
async def uncharge_takes_back_only_what_nobody_charged_again(stage: Stage) -> None:
    mine = await charge(stage, "a", 60, TOKEN, WIDE)
    theirs = await charge(stage, "a", 60, TOKEN)
    assert await stage.ledger.uncharge("a", mine.turns) == 1
    assert (await counted(stage), await counted(stage, WIDE)) == ((60, 0), (0, 0))
    assert await stage.ledger.uncharge("a", theirs.turns) == 1
    assert await stage.ledger.uncharge("a", theirs.turns) == 0
    assert await stage.ledger.uncharge("nobody", mine.turns) == 0
    assert await counted(stage) == (0, 0)
    assert (await charge(stage, "a", 100)).turns == {TOKEN.name: 1}, "the same claim may be charged again"


# -- correcting


@promise
async def correction_that_is_repeated_changes_nothing(stage: Stage) -> None:
    await charge(stage, "a", 60)
    await charge(stage, "b", 10)
    assert await correct(stage, "a", 25) == 1
    assert await stage.again().correct([Correction(TOKEN.name, HOUR_MS, "a", 25, await stage.ledger.now_ms())]) == 0
    assert await correct(stage, "nobody", 25) == 0
    assert await counted(stage) == (10, 25)


@promise
async def life_that_was_corrected_is_not_charged_again(stage: Stage) -> None:
    """A producer that paused between its claim and its charge, while another one went all the way."""
    await charge(stage, "a", 60, TOKEN, WIDE)
    await correct(stage, "a", 25)
    assert (await charge(stage, "a", 60, TOKEN, WIDE)).word == "ended"
    assert await counted(stage) == (0, 25)
    assert await counted(stage, WIDE) == (60, 0)


@promise
async def costs_leave_with_their_bucket_and_the_oldest_counts_whole(stage: Stage) -> None:
    now, span = await stage.ledger.now_ms(), 60 * 24 * HOUR_MS
    budget = replace(TOKEN, per_ms=span)
    day = budget.bucket_ms
    oldest = (now - span) // day * day
    for life, at in (("now", now), ("oldest", oldest), ("before", oldest - 1)):
        await charge(stage, life, 10, budget)
        assert await stage.ledger.correct([Correction(budget.name, span, life, 10, at)]) == 1
    found = await usage(stage, budget)
    assert found.spent == {now // day: 10, oldest // day: 10}, "an end of before the span is not kept"
    refused = await charge(stage, "x", 81, budget)
    assert refused.word == "exhausted"
    assert refused.usage is not None
    assert refused.usage.free_in_ms(budget, 101) is None
    assert refused.usage.free_in_ms(budget, 81) == oldest + day + span - refused.usage.now
    assert refused.usage.free_in_ms(budget, 100) == (now // day + 1) * day + span - refused.usage.now
    assert (await charge(stage, "x", 80, budget)).word == "charged"


@promise
async def budget_for_ever_never_forgets_a_cost(stage: Stage) -> None:
    ever = Budget("token:bob/net/ever", 100, EVER)
    await charge(stage, "a", 60, ever)
    await correct(stage, "a", 60, ever, ago=400 * 24 * HOUR_MS)
    refused = await charge(stage, "b", 41, ever)
    assert refused.word == "exhausted"
    assert refused.usage is not None
    assert refused.usage.free_in_ms(ever, 41) is None


# -- an operator's limit


@promise
async def override_stands_in_place_of_the_configured_limit_until_it_is_taken_away(stage: Stage) -> None:
    ledger = stage.ledger
    assert await ledger.override(TOKEN.name, 150, None)
    assert (await charge(stage, "a", 150)).word == "charged"
    assert (await usage(stage)).override == 150
    assert await ledger.override(TOKEN.name, 150, None), "a repeat is no conflict"
    assert not await ledger.override(TOKEN.name, 500, None), "two operators at once"
    assert await ledger.override(TOKEN.name, 0, 150)
    assert (await charge(stage, "b", 1)).word == "exhausted"
    await correct(stage, "a", 0)
    assert (await usage(stage)).override == 0
    assert await ledger.override(TOKEN.name, None, 0)
    assert await ledger.override(TOKEN.name, None, 0)
    assert (await usage(stage)).override is None
    assert (await charge(stage, "b", 100)).word == "charged"


# -- what a crash leaves


@promise
async def open_charge_is_looked_at_in_time_and_dropped_by_its_turn(stage: Stage) -> None:
    await charge(stage, "a", 60, key="orphan")
    await charge(stage, "b", 10)
    assert await due(stage) == []
    await stage.expire("charges")
    [a, b] = sorted(await due(stage), key=lambda one: one.life)
    assert (a.budget, a.units, a.turn, a.id.key) == (TOKEN.name, 60, 1, "orphan")
    await stage.ledger.look_later(b, HOUR_MS)
    assert [one.life for one in await due(stage)] == ["a"]
    await charge(stage, "a", 60, key="orphan")
    assert await due(stage) == [], "somebody goes on with it"
    assert await stage.ledger.uncharge("a", {a.budget: a.turn}) == 0
    await stage.expire("charges")
    assert {one.life: one.turn for one in await due(stage)} == {"a": 2, "b": 1}
    assert await stage.ledger.uncharge("a", {a.budget: 2}) == 1
    await correct(stage, "b", 1)
    await stage.expire("charges")
    assert await due(stage) == []
    await stage.ledger.look_later(b, 0)
    assert await due(stage) == [], "a look at what is over brings nothing back"


# -- with a record


async def charged_entry(stage: Stage, lane: str, amount: int, budgets: Sequence[Budget] = (TOKEN, WIDE)) -> Entry:
    """Claimed, charged and appended; a unit is 10 of the chain's smallest."""
    intent = replace(stage.intent(), limits=noted_charge(amount, 10, budgets))
    [claimed] = await stage.ledger.claim([Claim(intent.id, intent.fingerprint, lane, f"life{next(stage.names)}")])
    units = -(-amount // 10)
    [answer] = await stage.ledger.charge([Charge(intent.id, claimed.life, claimed.born, units, tuple(budgets))])
    assert answer.word == "charged"
    entry = Entry(intent, claimed.life, claimed.born)
    [appended] = await stage.ledger.append(lane, [entry])
    assert appended.word == "appended"
    return entry


async def ended(stage: Stage, amount: int, cost: int | None, *, signed: bool = True) -> Entry:
    """An intent that was charged `amount` and retired at `cost`."""
    lane = await stage.lane(f"near:net:a:{next(stage.names)}")
    fence = await stage.own(lane)
    entry = await charged_entry(stage, lane, amount)
    if signed:
        [taken] = await stage.ledger.take(fence, 1)
        write = stage.write(entry, BASE, position=taken.position)
        await stage.ledger.record_attempts(fence, BASE, [write])
        outcome = Outcome(Status.DONE, write.attempt.hash, BASE, cost=cost)
        await stage.ledger.settle(fence, [Settlement(write.id, write.life, write.position, outcome)])
    else:
        await stage.ledger.cancel(entry.intent.id)
    records = await stage.ledger.unretired(lane, 9)
    assert await stage.ledger.retire(records) == 1
    assert await stage.ledger.retire(records) == 0
    return entry


@promise
async def retired_intent_is_booked_at_what_it_cost_in_all_of_its_budgets(stage: Stage) -> None:
    entry = await ended(stage, 555, 101)
    for budget in (TOKEN, WIDE):
        assert await counted(stage, budget) == (0, 11), "rounded up, against the caller; once"
    record = await stage.read(entry)
    assert record.outcome is not None
    assert record.outcome.cost == 101
    assert record.intent.limits == entry.intent.limits, "a record tells what was charged"
    await ended(stage, 20, 2_500)
    assert await counted(stage, WIDE) == (0, 261), "an excess is booked whole"


@promise
async def only_an_intent_without_an_attempt_gives_everything_back(stage: Stage) -> None:
    await ended(stage, 300, None, signed=False)
    assert await counted(stage) == (0, 0)
    await ended(stage, 300, None)
    assert await counted(stage) == (0, 30), "signed, and nobody says what it cost: the charge stays booked"
