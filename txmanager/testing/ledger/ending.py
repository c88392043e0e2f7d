"""Settle, hold, resolve, answer: how an intent ends, once, and what keeps it from ending wrongly."""

from __future__ import annotations

import pytest

from txmanager.core.errors import Fenced, InvalidInput, NotAllowed, RolledBack
from txmanager.core.ledger import Settlement, WriteAhead
from txmanager.core.models import IntentId, Outcome, Purpose, failure
from txmanager.core.states import Status
from txmanager.testing.ledger.attempts import other, resign
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import BASE, LONG_MS, Stage

PROOF = {"cause": "expired", "height": "183000000000123"}
ERROR = failure("dead", "it can never land", new_key_helps=True)


def failed(write: WriteAhead, *deaths: str) -> Settlement:
    outcome = Outcome(Status.FAILED, error=ERROR)
    return Settlement(write.id, write.life, write.position, outcome, dict.fromkeys(deaths, PROOF))


@promise
async def settle_stores_the_outcome_once_and_leaves_the_queue(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    one, two = await stage.inflight(fence, 2)
    [answer] = await stage.ledger.settle(fence, [stage.done(one)], BASE)
    assert (answer.word, answer.status) == ("settled", "done")
    record = await stage.read(one)
    assert (record.status, record.outcome, record.intent.payload) == (Status.DONE, stage.done(one).outcome, {})
    assert (record.updated_at, record.attempts[0].raw) == (answer.at, one.attempt.raw)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired, view.landed) == (1, 1, 1, BASE)
    assert [r.id for r in await stage.ledger.unfinished(fence)] == [two.id]
    [event] = [e for e in await stage.ledger.events(fence.lane) if e.status is Status.DONE]
    assert (event.intent, event.tx_hash, event.error) == (one.id, one.attempt.hash, None)


@promise
async def settle_again_is_already_and_another_end_is_a_conflict(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.settled(fence)
    before = await stage.read(write)
    assert (await stage.settle_one(fence, stage.done(write))).word == "already"
    answer = await stage.settle_one(fence, failed(write, write.attempt.name))
    assert (answer.word, answer.status) == ("conflict", "done")
    assert await stage.read(write) == before
    assert [s for _, s in await stage.statuses(fence.lane)] == ["queued", "inflight", "done"]


@promise
async def an_end_that_no_chain_shows_waits_while_the_history_is_another(stage: Stage) -> None:
    """An attempt may have been forgotten: `failed` and `cancelled` would promise that nothing lands."""
    fence = await stage.own(await stage.lane())
    one, two = await stage.inflight(fence, 2)
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    with pytest.raises(RolledBack):
        await stage.ledger.settle(fence, [failed(one, one.attempt.name)])
    assert (await stage.read(one)).status is Status.INFLIGHT
    # what the chain shows needs no memory
    assert (await stage.settle_one(fence, stage.done(two))).word == "settled"
    await stage.ledger.vouch(fence, "elsewhere", view.history_id)
    assert (await stage.settle_one(fence, failed(one, one.attempt.name))).word == "settled"


@promise
async def stale_owner_cannot_settle(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    [write] = await stage.inflight(old)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced, match="belongs to w2"):
        await stage.ledger.settle(old, [stage.done(write)], BASE)
    assert (await stage.read(write)).status is Status.INFLIGHT
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.landed is None


@promise
async def done_names_an_attempt_that_was_recorded(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    strange = Outcome(Status.DONE, "somebody-elses", BASE)
    nameless = Outcome(Status.DONE)
    for outcome in (strange, nameless):
        dead = {write.attempt.name: PROOF}
        answer = await stage.settle_one(fence, Settlement(write.id, write.life, write.position, outcome, dead))
        assert (answer.word, answer.status) == ("refused", "inflight")
    assert (await stage.read(write)).status is Status.INFLIGHT


@promise
async def queued_intent_cannot_be_done_but_can_fail(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    first, second = await stage.queued(fence.lane, 2)
    done = Outcome(Status.DONE, "h", BASE)
    answer = await stage.settle_one(fence, Settlement(first.intent.id, first.life, "", done))
    assert (answer.word, answer.status) == ("refused", "queued")
    ended = Settlement(first.intent.id, first.life, "", Outcome(Status.FAILED, error=ERROR))
    assert (await stage.settle_one(fence, ended)).word == "settled"
    assert [t.intent.id for t in await stage.ledger.take(fence, 9)] == [second.intent.id]
    record = await stage.read(first)
    assert record.outcome is not None
    assert record.outcome.error == ERROR
    assert (await stage.ledger.events(fence.lane))[-1].error == "dead"


@promise
async def failed_after_write_ahead_needs_every_effect_proven_dead(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    assert (await stage.settle_one(fence, failed(write))).word == "refused"
    assert (await stage.settle_one(fence, failed(write, "1:other"))).word == "refused"
    again = resign(stage, write, BASE + 1, [write.attempt.name])
    await stage.ledger.record_attempts(fence, BASE + 1, [again])
    assert (await stage.settle_one(fence, failed(write, write.attempt.name))).word == "refused"
    assert (await stage.settle_one(fence, failed(write, again.attempt.name))).word == "settled"
    record = await stage.read(write)
    assert [a.proof for a in record.attempts] == [{"cause": "overtaken"}, PROOF]


@promise
async def chain_failure_of_a_recorded_attempt_is_proof_enough(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    outcome = Outcome(Status.FAILED, write.attempt.hash, write.attempt.nonce, error=ERROR)
    assert (await stage.settle_one(fence, Settlement(write.id, write.life, "", outcome))).word == "settled"


@promise
async def noop_is_never_judged_as_the_outcome(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    noop = other(stage, write, BASE, Purpose.NOOP)
    await stage.ledger.record_attempts(fence, BASE + 1, [noop])
    landed = Outcome(Status.DONE, noop.attempt.hash, noop.attempt.nonce)
    assert (await stage.settle_one(fence, Settlement(write.id, write.life, "", landed))).word == "refused"
    killed = Settlement(write.id, write.life, "", Outcome(Status.CANCELLED), {write.attempt.name: PROOF})
    assert (await stage.settle_one(fence, killed)).word == "settled"


@promise
async def cancelled_never_names_an_effect_that_landed(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    outcome = Outcome(Status.CANCELLED, write.attempt.hash, write.attempt.nonce)
    assert (await stage.settle_one(fence, Settlement(write.id, write.life, "", outcome))).word == "refused"


@promise
async def settle_of_another_life_or_a_retired_record_is_gone(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    ghost = Settlement(write.id, "another", write.position, stage.done(write).outcome)
    stranger = Settlement(IntentId("pool", "nobody"), "x", "", stage.done(write).outcome)
    answers = await stage.ledger.settle(fence, [ghost, stranger, stage.done(write)])
    assert [a.word for a in answers] == ["gone", "gone", "settled"]
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    assert (await stage.settle_one(fence, stage.done(write))).word == "gone"


@promise
async def landed_only_grows_and_compares_as_a_number(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    for nonce, stands in ((99, 99), (BASE, BASE), (999, BASE), (BASE - 1, BASE), (BASE * 10, BASE * 10)):
        await stage.ledger.settle(fence, [], nonce)
        view = await stage.ledger.lane(fence.lane)
        assert view is not None
        assert view.landed == stands


# -- hold and resolve


@promise
async def hold_keeps_reason_and_evidence_and_a_landing_ends_it(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    record = await stage.read(write)
    assert record.status is Status.HELD
    assert record.hold == {"reason": "lost_proof", "evidence": {"height": "183000000000123"}}
    assert await stage.ledger.hold(fence, write.id, write.life, "again", {})
    assert (await stage.read(write)).hold == record.hold
    assert (await stage.ledger.events(fence.lane))[-1].error == "lost_proof"
    assert (await stage.settle_one(fence, stage.done(write))).word == "settled"
    assert [s for _, s in await stage.statuses(fence.lane)] == ["queued", "inflight", "held", "done"]


@promise
async def only_an_inflight_intent_is_held(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [entry] = await stage.queued(fence.lane)
    assert not await stage.ledger.hold(fence, entry.intent.id, entry.life, "why", {})
    assert (await stage.read(entry)).status is Status.QUEUED
    await stage.ledger.cancel(entry.intent.id)
    [write] = await stage.settled(fence)
    assert not await stage.ledger.hold(fence, write.id, write.life, "why", {})
    assert not await stage.ledger.hold(fence, write.id, "another", "why", {})
    assert (await stage.read(write)).status is Status.DONE


@promise
async def hold_of_another_life_changes_nothing(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    assert not await stage.ledger.hold(fence, write.id, "another", "why", {})
    assert (await stage.read(write)).status is Status.INFLIGHT


@promise
async def stale_owner_cannot_hold(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    [write] = await stage.inflight(old)
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.hold(old, write.id, write.life, "why", {})
    assert (await stage.read(write)).status is Status.INFLIGHT


@promise
async def operators_word_waits_on_a_held_intent_until_it_is_answered(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    before = (await stage.ledger.renew([fence], LONG_MS))[0].asks
    record = await stage.ledger.resolve(write.id, {"verb": "resign", "by": "ops"})
    assert record.directive == {"verb": "resign", "by": "ops"}
    await stage.ledger.resolve(write.id, {"verb": "resign", "by": "ops"})
    assert (await stage.ledger.renew([fence], LONG_MS))[0].asks == before + 1
    [unfinished] = await stage.ledger.unfinished(fence)
    assert unfinished.directive == record.directive
    assert not await stage.ledger.answer(fence, write.id, "another")
    assert (await stage.read(write)).directive is not None
    assert await stage.ledger.answer(fence, write.id, write.life)
    assert (await stage.read(write)).directive is None


@promise
async def only_a_held_intent_is_resolved(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    with pytest.raises(NotAllowed, match="is inflight, only a held one"):
        await stage.ledger.resolve(write.id, {"verb": "track"})
    await stage.ledger.settle(fence, [stage.done(write)])
    await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 9))
    with pytest.raises(NotAllowed, match="is done, only a held one"):
        await stage.ledger.resolve(write.id, {"verb": "track"})
    assert (await stage.read(write)).directive is None


@promise
async def stale_owner_cannot_answer_an_operator(stage: Stage) -> None:
    lane = await stage.lane()
    old = await stage.own(lane)
    write = await stage.held(old)
    await stage.ledger.resolve(write.id, {"verb": "track"})
    await stage.take_over(lane, old)
    with pytest.raises(Fenced):
        await stage.ledger.answer(old, write.id, write.life)
    assert (await stage.read(write)).directive == {"verb": "track"}


@promise
async def settle_takes_final_outcomes_only(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    [write] = await stage.inflight(fence)
    for status in (Status.QUEUED, Status.INFLIGHT, Status.HELD):
        with pytest.raises(InvalidInput, match="outcome"):
            await stage.settle_one(
                fence, Settlement(write.id, write.life, "", Outcome(status), {write.attempt.name: {}})
            )
    assert (await stage.read(write)).status is Status.INFLIGHT


@promise
async def end_of_an_intent_takes_the_operators_word_with_it(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    write = await stage.held(fence)
    await stage.ledger.resolve(write.id, {"verb": "track"})
    assert (await stage.settle_one(fence, stage.done(write))).word == "settled"
    assert (await stage.read(write)).directive is None


@promise
async def batch_of_a_thousand_goes_through_every_step(stage: Stage) -> None:
    fence = await stage.own(await stage.lane())
    batch = await stage.inflight(fence, 1001)
    answers = await stage.ledger.settle(fence, [stage.done(w) for w in batch], BASE)
    assert {a.word for a in answers} == {"settled"}
    assert await stage.ledger.retire(await stage.ledger.unretired(fence.lane, 2000)) == 1001
    view = await stage.ledger.lane(fence.lane)
    assert view is not None
    assert (view.depth, view.unfinished, view.unretired) == (0, 0, 0)
