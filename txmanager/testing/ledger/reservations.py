"""Keyless lanes: one number, one owner; what may have been sent is never handed out again, what was not is."""

from __future__ import annotations

import asyncio

import pytest

from txmanager.core.errors import Fenced, InvalidInput, NotAllowed, NotFound, Refused, RolledBack
from txmanager.core.ledger import Appended, Entry, WriteAhead
from txmanager.core.models import Attempt, Fence, LaneSpec, Purpose
from txmanager.core.reservations import Cap, Use, owned_token, tenant_of
from txmanager.core.states import LaneState, Status
from txmanager.testing.ledger.registry import promise
from txmanager.testing.ledger.stage import LONG_MS, POOL, Stage
from txmanager.testing.waiting import until

LANE = "evm:1:0x00000000000000000000000000000000000000aa"
SEED = 9_007_199_254_740_993
"""2^53 + 1: a float would make it even."""


async def keyless(stage: Stage, lane: str = LANE) -> str:
    await stage.ledger.register(LaneSpec(lane, POOL, weight=0, keyless=True))
    return lane


async def reserve(stage: Stage, lane: str, token: str, chain: int | None = None, *, ttl_ms: int = LONG_MS) -> int:
    answer = await stage.ledger.reserve(lane, token, ttl_ms, chain, SEED)
    assert answer.word == "reserved", answer
    assert answer.nonce is not None
    return answer.nonce


async def expired(stage: Stage, lane: str) -> int:
    """All times are over; answers how many numbers went back."""
    await stage.expire("deadlines", lane=lane)
    return await stage.ledger.expire(lane)


async def send(stage: Stage, lane: str, token: str, nonce: int, hash: str) -> tuple[Entry, Appended]:
    intent = stage.intent(f"raw:{hash}")
    claimed = await stage.claim(intent, lane)
    entry = Entry(intent, claimed.life, claimed.born, Use(token, nonce, hash))
    [answer] = await stage.ledger.append(lane, [entry])
    return entry, answer


async def sent(stage: Stage, lane: str, token: str, hash: str) -> tuple[Entry, int]:
    nonce = await reserve(stage, lane, token)
    entry, answer = await send(stage, lane, token, nonce, hash)
    assert answer.word == "appended", answer
    return entry, nonce


def given(entry: Entry, position: str, purpose: Purpose = Purpose.KEYLESS) -> WriteAhead:
    assert entry.use is not None
    attempt = Attempt(entry.use.nonce, entry.use.hash, b"raw", purpose, 1_700_000_000_000)
    return WriteAhead(entry.intent.id, entry.life, position, attempt)


async def owned(stage: Stage, lane: str) -> Fence:
    lease = await stage.ledger.lease(lane, "w1", f"token{next(stage.names)}", LONG_MS)
    assert lease.fence is not None
    return lease.fence


# -- reserve


@promise
async def reservations_are_distinct_and_consecutive_from_the_seed(stage: Stage) -> None:
    lane = await keyless(stage)
    tokens = [f"t{n}" for n in range(12)]
    numbers = await asyncio.gather(*(reserve(stage, lane, token) for token in tokens))
    assert sorted(numbers) == list(range(SEED, SEED + 12))
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.keyless, view.cursor) == (True, SEED + 12)


@promise
async def same_token_gets_the_same_number_again(stage: Stage) -> None:
    lane = await keyless(stage)
    first = await stage.ledger.reserve(lane, "t1", LONG_MS, None, SEED)
    await reserve(stage, lane, "t2")
    assert await stage.ledger.reserve(lane, "t1", LONG_MS, SEED + 5, SEED) == first
    assert await reserve(stage, lane, "t3") == SEED + 2


@promise
async def cold_lane_asks_for_the_chains_count_first(stage: Stage) -> None:
    lane = await keyless(stage)
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS)).word == "cold"
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, 7)).word == "cold"
    assert (await stage.ledger.turn(lane, "t2", LONG_MS)).word == "cold"
    assert (await stage.ledger.book(lane)).next_nonce is None
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, 7, 5)).nonce == 7


@promise
async def stale_count_of_the_chain_never_lowers_the_counter(stage: Stage) -> None:
    lane = await keyless(stage)
    assert await reserve(stage, lane, "t1", SEED + 3) == SEED + 3
    assert await reserve(stage, lane, "t2", 0) == SEED + 4
    assert await reserve(stage, lane, "t3", SEED) == SEED + 5
    assert (await stage.ledger.book(lane)).chain_nonce == SEED + 3


@promise
async def higher_count_of_the_chain_raises_the_counter_and_is_told(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1", 9)
    answer = await stage.ledger.reserve(lane, "t2", LONG_MS, SEED + 10, SEED)
    assert (answer.nonce, answer.skipped) == (SEED + 10, 9)
    again = await stage.ledger.reserve(lane, "t3", LONG_MS, SEED + 10, SEED)
    assert (again.nonce, again.skipped) == (SEED + 11, 0)


@promise
async def lane_that_signs_hands_out_no_numbers(stage: Stage) -> None:
    lane = await stage.lane()
    with pytest.raises(NotAllowed, match="signs by itself"):
        await stage.ledger.reserve(lane, "t1", LONG_MS, 7, 7)
    with pytest.raises(NotAllowed, match="signs by itself"):
        await stage.ledger.turn(lane, "t1", LONG_MS, 7, 7)
    with pytest.raises(NotAllowed, match="signs by itself"):
        await stage.ledger.book(lane)
    for call in (stage.ledger.recycle, stage.ledger.unlock):
        with pytest.raises(NotFound):
            await call("evm:1:0xnobody", "t1")
    for read in (stage.ledger.expire, stage.ledger.book, stage.ledger.checked):
        with pytest.raises(NotFound):
            await read("evm:1:0xnobody")
    with pytest.raises(NotFound):
        await stage.ledger.reserve("evm:1:0xnobody", "t1", LONG_MS, 7, 7)


@promise
async def address_is_of_one_sort_for_ever(stage: Stage) -> None:
    lane, signing = await keyless(stage), await stage.lane()
    with pytest.raises(NotAllowed, match="cannot be both"):
        await stage.ledger.register(LaneSpec(lane, POOL))
    with pytest.raises(NotAllowed, match="cannot be both"):
        await stage.ledger.register(LaneSpec(signing, POOL, keyless=True))
    assert [lane.keyless for lane in await stage.ledger.lanes()] in ([True, False], [False, True])
    await keyless(stage)


@promise
async def stopped_lane_hands_out_nothing(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    await stage.ledger.set_lane(lane, LaneState.PAUSED)
    await reserve(stage, lane, "t2")
    for state in (LaneState.QUARANTINED, LaneState.DRAINING):
        await stage.ledger.set_lane(lane, state)
        answer = await stage.ledger.reserve(lane, f"t-{state}", LONG_MS, None, SEED)
        assert (answer.word, answer.state) == ("refused", state.value)
        assert (await stage.ledger.turn(lane, f"l-{state}", LONG_MS, None, SEED)).word == "refused"
        assert await reserve(stage, lane, "t1") == SEED  # what was handed out is still known
    assert (await stage.ledger.book(lane)).next_nonce == SEED + 2


@promise
async def bad_reservation_is_refused_by_field(stage: Stage) -> None:
    lane = await keyless(stage)
    for token in ("", "a b c", " a", "a/b c", "é", "x" * 129):
        with pytest.raises(InvalidInput, match="token"):
            await stage.ledger.reserve(lane, token, LONG_MS, None, SEED)
    with pytest.raises(InvalidInput, match="ttl_ms"):
        await stage.ledger.reserve(lane, "t", 0, None, SEED)
    with pytest.raises(InvalidInput, match="chain_nonce"):
        await stage.ledger.reserve(lane, "t", LONG_MS, 2**63, SEED)


@promise
async def numbers_of_other_lengths_raise_the_counter(stage: Stage) -> None:
    lane = await keyless(stage)
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, 9, 9)).nonce == 9
    assert (await stage.ledger.reserve(lane, "t2", LONG_MS, 100)).nonce == 100
    assert (await stage.ledger.reserve(lane, "t3", LONG_MS, 20)).nonce == 101


# -- recycle and expiry


@promise
async def recycled_numbers_are_reused_lowest_first(stage: Stage) -> None:
    lane = await keyless(stage)
    for n in range(4):
        await reserve(stage, lane, f"t{n}")
    answers = [await stage.ledger.recycle(lane, f"t{n}") for n in (3, 2, 0)]
    assert [(a.word, a.nonce, a.gap) for a in answers] == [
        ("recycled", SEED + 3, False),
        ("recycled", SEED + 2, True),
        ("recycled", SEED, True),
    ]
    assert (await stage.ledger.book(lane)).reuse == (SEED, SEED + 2, SEED + 3)
    assert [await reserve(stage, lane, f"u{n}") for n in range(4)] == [SEED, SEED + 2, SEED + 3, SEED + 4]


@promise
async def numbers_of_other_lengths_are_reused_in_their_order(stage: Stage) -> None:
    lane = await keyless(stage)
    await stage.ledger.reserve(lane, "t9", LONG_MS, None, 9)
    assert (await stage.ledger.reserve(lane, "t10", LONG_MS, None, 9)).nonce == 10
    for token in ("t10", "t9"):
        await stage.ledger.recycle(lane, token)
    assert [(await stage.ledger.reserve(lane, f"u{n}", LONG_MS, None, 9)).nonce for n in range(3)] == [9, 10, 11]


@promise
async def late_duplicate_recycle_changes_nothing(stage: Stage) -> None:
    """Or the number would go to two callers."""
    lane = await keyless(stage)
    nonce = await reserve(stage, lane, "t1")
    assert (await stage.ledger.recycle(lane, "t1")).word == "recycled"
    assert await reserve(stage, lane, "t2") == nonce
    assert (await stage.ledger.recycle(lane, "t1")).word == "over"
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, None, SEED)).word == "over"
    assert await reserve(stage, lane, "t3") == nonce + 1
    assert (await stage.ledger.recycle(lane, "nobody")).word == "over"


@promise
async def recycle_of_one_leaves_the_turn_of_another(stage: Stage) -> None:
    lane = await keyless(stage)
    await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)
    await reserve(stage, lane, "t2")
    await stage.ledger.recycle(lane, "t2")
    assert (await stage.ledger.book(lane)).holder == "t1"


@promise
async def expired_token_is_told_from_a_new_one(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    assert await expired(stage, lane) == 1
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, None, SEED)).word == "over"


@promise
async def number_that_may_have_been_sent_is_never_recycled(stage: Stage) -> None:
    lane = await keyless(stage)
    _, nonce = await sent(stage, lane, "t1", "0xa")
    for call in (stage.ledger.recycle, stage.ledger.recycle):
        answer = await call(lane, "t1")
        assert (answer.word, answer.nonce) == ("sent", nonce)
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, None, SEED)).word == "sent"
    assert await reserve(stage, lane, "t2") == nonce + 1
    assert (await stage.ledger.book(lane)).reuse == ()


@promise
async def number_that_may_have_been_sent_never_expires(stage: Stage) -> None:
    lane = await keyless(stage)
    _, nonce = await sent(stage, lane, "t1", "0xa")
    await reserve(stage, lane, "t2")
    assert await expired(stage, lane) == 1
    book = await stage.ledger.book(lane)
    assert (book.reuse, [r.nonce for r in book.reserved]) == ((nonce + 1,), [nonce])


@promise
async def sent_number_is_remembered_until_it_is_final(stage: Stage) -> None:
    lane = await keyless(stage)
    fence = await owned(stage, lane)
    for token in ("t1", "t2"):
        await sent(stage, lane, token, f"0x{token}")
    await expired(stage, lane)
    await stage.ledger.settle(fence, [], SEED)
    assert len((await stage.ledger.book(lane)).reserved) == 2
    await expired(stage, lane)
    assert [r.token for r in (await stage.ledger.book(lane)).reserved] == ["t2"]


@promise
async def token_that_is_long_over_is_forgotten(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    await stage.ledger.recycle(lane, "t1")
    assert await stage.ledger.expire(lane) == 0
    assert (await stage.ledger.reserve(lane, "t1", LONG_MS, None, SEED)).word == "over"
    assert await expired(stage, lane) == 0
    assert await reserve(stage, lane, "t1") == SEED


@promise
async def unused_reservation_expires_and_its_number_is_reused(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t2")
    assert await stage.ledger.expire(lane) == 0
    nonce = await reserve(stage, lane, "t1", ttl_ms=1)

    async def moved() -> bool:
        return await stage.ledger.expire(lane) == 1  # by the server's own clock

    await until(moved, every=0.001)
    assert await stage.ledger.expire(lane) == 0
    assert (await stage.ledger.recycle(lane, "t1")).word == "over"
    _, answer = await send(stage, lane, "t1", nonce, "0xa")
    assert answer.word == "unreserved"
    assert await reserve(stage, lane, "t3") == nonce


@promise
async def reserve_takes_back_what_expired_by_itself(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    await stage.expire("deadlines", lane=lane)
    assert await reserve(stage, lane, "t2") == SEED


@promise
async def number_the_chain_used_is_not_reused(stage: Stage) -> None:
    lane = await keyless(stage)
    for n in range(3):
        await reserve(stage, lane, f"t{n}")
    await stage.ledger.recycle(lane, "t0")
    assert await reserve(stage, lane, "t3", SEED + 1) == SEED + 3  # somebody else used the first number
    await stage.ledger.recycle(lane, "t1")
    assert (await stage.ledger.book(lane)).reuse == (SEED + 1,)
    assert await reserve(stage, lane, "t4", SEED + 3) == SEED + 4
    await stage.ledger.recycle(lane, "t2")
    assert (await stage.ledger.book(lane)).reuse == ()


@promise
async def number_below_what_landed_is_not_reused(stage: Stage) -> None:
    lane = await keyless(stage)
    fence = await owned(stage, lane)
    for n in range(3):
        await reserve(stage, lane, f"t{n}")
    await stage.ledger.settle(fence, [], SEED + 1)
    for n in range(3):
        await stage.ledger.recycle(lane, f"t{n}")
    assert (await stage.ledger.book(lane)).reuse == (SEED + 2,)


# -- sending


@promise
async def bytes_own_their_number_from_the_step_that_accepts_them(stage: Stage) -> None:
    lane = await keyless(stage)
    nonce = await reserve(stage, lane, "t1")
    entry, answer = await send(stage, lane, "t1", nonce, "0xa")
    assert answer.word == "appended"
    [again] = await stage.ledger.append(lane, [entry])
    assert (again.word, again.position) == ("exists", answer.position)
    [reservation] = (await stage.ledger.book(lane)).reserved
    assert (reservation.token, reservation.nonce, reservation.state) == ("t1", nonce, "sent")
    assert [(s.hash, s.id) for s in reservation.sent] == [("0xa", entry.intent.id)]


@promise
async def replacement_by_the_owner_shares_its_number(stage: Stage) -> None:
    lane = await keyless(stage)
    _, nonce = await sent(stage, lane, "t1", "0xa")
    _, answer = await send(stage, lane, "t1", nonce, "0xb")
    assert answer.word == "appended"
    [reservation] = (await stage.ledger.book(lane)).reserved
    assert [s.hash for s in reservation.sent] == ["0xa", "0xb"]


@promise
async def bytes_without_their_own_reservation_are_refused(stage: Stage) -> None:
    lane = await keyless(stage)
    nonce = await reserve(stage, lane, "t1")
    await reserve(stage, lane, "t2")
    for token, number, hash in (("t2", nonce, "0xa"), ("t1", nonce + 7, "0xb"), ("nobody", nonce, "0xc")):
        _, answer = await send(stage, lane, token, number, hash)
        assert (answer.word, answer.cursor) == ("unreserved", nonce + 2)
    bare = await stage.entry(lane)
    assert [a.word for a in await stage.ledger.append(lane, [bare])] == ["unreserved"]
    await stage.ledger.recycle(lane, "t1")
    _, answer = await send(stage, lane, "t1", nonce, "0xd")
    assert answer.word == "unreserved"
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert view.depth == 0


@promise
async def reservation_means_nothing_to_a_lane_that_signs(stage: Stage) -> None:
    lane = await stage.lane()
    _, answer = await send(stage, lane, "t1", 7, "0xa")
    assert answer.word == "unreserved"


@promise
async def bytes_at_a_number_the_chain_used_are_refused(stage: Stage) -> None:
    lane = await keyless(stage)
    nonce = await reserve(stage, lane, "t1")
    await reserve(stage, lane, "t2", nonce + 1)
    _, answer = await send(stage, lane, "t1", nonce, "0xa")
    assert (answer.word, answer.cursor) == ("used", nonce + 2)
    fence = await owned(stage, lane)
    await stage.ledger.settle(fence, [], nonce + 1)
    _, answer = await send(stage, lane, "t2", nonce + 1, "0xb")
    assert answer.word == "used"


@promise
async def what_was_sent_is_replaced_until_it_is_final(stage: Stage) -> None:
    """The chain's newest count may be taken back; only what is final stays."""
    lane = await keyless(stage)
    _, nonce = await sent(stage, lane, "t1", "0xa")
    await reserve(stage, lane, "t2", nonce + 1)
    _, answer = await send(stage, lane, "t1", nonce, "0xb")
    assert answer.word == "appended"
    await stage.ledger.settle(await owned(stage, lane), [], nonce)
    _, answer = await send(stage, lane, "t1", nonce, "0xc")
    assert answer.word == "used"


@promise
async def numbers_a_reorg_took_back_are_reclaimed_on_an_operators_word(stage: Stage) -> None:
    lane = await keyless(stage)
    fence = await owned(stage, lane)
    await sent(stage, lane, "t1", "0xa")
    assert await reserve(stage, lane, "t2", SEED + 6) == SEED + 6  # five were used elsewhere, said the chain
    await stage.ledger.settle(fence, [], SEED)
    book = await stage.ledger.book(lane)
    assert book.unowned(SEED) == [SEED + n for n in range(1, 6)]
    everything = list(range(SEED - 3, SEED + 9))
    for count in (4, 0):
        assert await stage.ledger.reclaim(fence, SEED + 2, everything) == count
    book = await stage.ledger.book(lane)
    assert (book.reuse, book.chain_nonce, book.next_nonce) == (tuple(range(SEED + 2, SEED + 6)), SEED + 2, SEED + 7)
    assert await reserve(stage, lane, "t3", SEED + 2) == SEED + 2
    _, answer = await send(stage, lane, "t3", SEED + 2, "0xb")
    assert answer.word == "appended"
    assert await stage.ledger.reclaim(fence, SEED + 1, everything) == 1
    assert (await stage.ledger.book(lane)).reuse == (SEED + 1, SEED + 3, SEED + 4, SEED + 5)


@promise
async def stale_owner_cannot_reclaim_numbers(stage: Stage) -> None:
    lane = await keyless(stage)
    fence = await owned(stage, lane)
    await reserve(stage, lane, "t1", SEED + 6)
    await stage.ledger.release(fence)
    with pytest.raises(Fenced):
        await stage.ledger.reclaim(fence, SEED, [SEED])
    assert (await stage.ledger.book(lane)).reuse == ()


# -- write-ahead


@promise
async def given_bytes_are_written_ahead_whatever_their_number(stage: Stage) -> None:
    """Numbers arrive in any order, and reservations move the counter meanwhile."""
    lane = await keyless(stage)
    low = await reserve(stage, lane, "t1")
    high, _ = await sent(stage, lane, "t2", "0xb")
    fence = await owned(stage, lane)
    [taken] = await stage.ledger.take(fence, 9)
    assert await stage.ledger.record_attempts(fence, 0, [given(high, taken.position)]) == low + 2
    entry, _ = await send(stage, lane, "t1", low, "0xa")
    replaced, _ = await send(stage, lane, "t1", low, "0xc")
    await reserve(stage, lane, "t3")
    batch = [given(e, t.position) for e, t in zip((entry, replaced), await stage.ledger.take(fence, 9), strict=True)]
    for _ in range(2):
        assert await stage.ledger.record_attempts(fence, 0, batch) == low + 3
    records = await stage.ledger.unfinished(fence)
    assert sorted(a.hash for r in records for a in r.attempts) == ["0xa", "0xb", "0xc"]
    assert {r.status for r in records} == {Status.INFLIGHT}
    view = await stage.ledger.lane(lane)
    assert view is not None
    assert (view.cursor, view.signed_upto) == (low + 3, batch[-1].position)


@promise
async def given_bytes_are_a_prefix_of_the_queue(stage: Stage) -> None:
    lane = await keyless(stage)
    await sent(stage, lane, "t1", "0xa")
    second, _ = await sent(stage, lane, "t2", "0xb")
    fence = await owned(stage, lane)
    taken = await stage.ledger.take(fence, 9)
    with pytest.raises(Refused, match="oldest"):
        await stage.ledger.record_attempts(fence, 0, [given(second, taken[1].position)])


@promise
async def keyless_lane_signs_nothing_and_others_are_given_nothing(stage: Stage) -> None:
    lane = await keyless(stage)
    entry, nonce = await sent(stage, lane, "t1", "0xa")
    fence = await owned(stage, lane)
    [taken] = await stage.ledger.take(fence, 9)
    with pytest.raises(Refused, match="does not take"):
        await stage.ledger.record_attempts(fence, nonce + 1, [given(entry, taken.position, Purpose.FIRST)])
    await stage.ledger.record_attempts(fence, nonce + 1, [given(entry, taken.position)])
    for purpose in (Purpose.REPLACE, Purpose.NOOP, Purpose.RESIGN):
        write = stage.write(entry, nonce, purpose, hash="0xz", deaths=[f"{nonce}:0xa"])
        with pytest.raises(Refused, match="does not take"):
            await stage.ledger.record_attempts(fence, nonce + 1, [write])
    signing = await stage.own(await stage.lane())
    await stage.queued(signing.lane)
    [other] = await stage.ledger.take(signing, 1)
    write = stage.write(Entry(other.intent, other.life, 0), nonce, Purpose.KEYLESS, position=other.position)
    with pytest.raises(Refused, match="does not take"):
        await stage.ledger.record_attempts(signing, await stage.cursor(signing.lane), [write])


# -- turns


@promise
async def turns_are_granted_one_at_a_time_in_the_order_asked(stage: Stage) -> None:
    lane = await keyless(stage)
    first = await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)
    assert (first.word, first.nonce, first.fence) == ("granted", SEED, 1)
    waiting = [await stage.ledger.turn(lane, token, LONG_MS, None, SEED) for token in ("t2", "t3", "t2")]
    assert [(t.word, t.ahead) for t in waiting] == [("waiting", 1), ("waiting", 2), ("waiting", 1)]
    assert await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED) == first
    book = await stage.ledger.book(lane)
    assert (book.holder, book.waiting) == ("t1", 2)
    assert (await stage.ledger.unlock(lane, "t1")).word == "recycled"
    # t3 asks first, yet t2 was there before
    assert (await stage.ledger.turn(lane, "t3", LONG_MS, None, SEED)).word == "waiting"
    second = await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)
    assert (second.word, second.nonce, second.fence) == ("granted", SEED, 2)


@promise
async def turn_that_ends_after_a_send_keeps_its_number(stage: Stage) -> None:
    lane = await keyless(stage)
    first = await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)
    assert first.nonce is not None
    _, answer = await send(stage, lane, "t1", first.nonce, "0xa")
    assert answer.word == "appended"
    assert (await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)).word == "waiting"
    assert (await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)).word == "sent"
    assert (await stage.ledger.recycle(lane, "t1")).word == "sent"
    assert (await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)).word == "waiting"
    assert (await stage.ledger.unlock(lane, "t1")).word == "sent"
    second = await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)
    assert (second.word, second.nonce) == ("granted", first.nonce + 1)


@promise
async def holder_whose_time_is_over_is_fenced_off(stage: Stage) -> None:
    lane = await keyless(stage)
    old = await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)
    assert old.nonce is not None
    await stage.expire("deadlines", lane=lane)
    new = await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)
    assert (new.word, new.nonce, new.fence) == ("granted", old.nonce, old.fence + 1)
    _, late = await send(stage, lane, "t1", old.nonce, "0xa")
    assert late.word == "unreserved"
    assert (await stage.ledger.unlock(lane, "t1")).word == "over"
    assert (await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)).word == "over"
    assert (await stage.ledger.book(lane)).holder == "t2"


@promise
async def turn_of_a_sender_that_never_unlocks_ends(stage: Stage) -> None:
    lane = await keyless(stage)
    first = await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)
    assert first.nonce is not None
    await send(stage, lane, "t1", first.nonce, "0xa")
    await stage.expire("deadlines", lane=lane)
    second = await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)
    assert (second.word, second.nonce) == ("granted", first.nonce + 1)


@promise
async def whoever_stops_asking_loses_the_place_in_line(stage: Stage) -> None:
    lane = await keyless(stage)
    for token in ("t1", "t2", "t3"):
        await stage.ledger.turn(lane, token, LONG_MS, None, SEED)
    await stage.expire("deadlines", lane=lane)
    assert (await stage.ledger.turn(lane, "t3", LONG_MS, None, SEED)).word == "granted"
    assert (await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)).ahead == 1


@promise
async def nothing_is_handed_out_on_a_server_with_another_history(stage: Stage) -> None:
    """A number that was handed out may be forgotten there."""
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    fence = await owned(stage, lane)
    view = await stage.ledger.lane(lane)
    assert view is not None
    await stage.ledger.vouch(fence, view.history_id, "elsewhere")
    for call in (stage.ledger.reserve, stage.ledger.turn):
        with pytest.raises(RolledBack):
            await call(lane, "t2", LONG_MS, None, SEED)
    assert await reserve(stage, lane, "t1") == SEED
    await stage.ledger.vouch(fence, "elsewhere", view.history_id)
    assert await reserve(stage, lane, "t2") == SEED + 1


@promise
async def place_in_line_can_be_left(stage: Stage) -> None:
    lane = await keyless(stage)
    for token in ("t1", "t2", "t3"):
        await stage.ledger.turn(lane, token, LONG_MS, None, SEED)
    assert (await stage.ledger.recycle(lane, "t2")).word == "over"
    assert (await stage.ledger.unlock(lane, "t2")).word == "recycled"
    assert (await stage.ledger.turn(lane, "t3", LONG_MS, None, SEED)).ahead == 1
    assert (await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)).word == "over"


@promise
async def reservation_that_is_no_turn_is_not_unlocked(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t1")
    await stage.ledger.turn(lane, "t2", LONG_MS, None, SEED)
    assert (await stage.ledger.unlock(lane, "t1")).word == "over"
    assert (await stage.ledger.turn(lane, "t1", LONG_MS, None, SEED)).word == "over"
    assert await reserve(stage, lane, "t1") == SEED
    assert (await stage.ledger.recycle(lane, "t2")).word == "recycled"
    assert (await stage.ledger.turn(lane, "t3", LONG_MS, None, SEED)).word == "granted"


@promise
async def book_tells_gaps_below_what_was_sent(stage: Stage) -> None:
    lane = await keyless(stage)
    for n in range(2):
        await reserve(stage, lane, f"t{n}")
    await sent(stage, lane, "t2", "0xa")
    await reserve(stage, lane, "t3")
    for n in (0, 3):
        await stage.ledger.recycle(lane, f"t{n}")
    book = await stage.ledger.book(lane)
    assert (book.gaps, book.reuse) == ([SEED], (SEED, SEED + 3))
    assert [(r.nonce, r.state) for r in book.reserved] == [(SEED + 1, "reserved"), (SEED + 2, "sent")]
    assert book.checked_at == 0
    await stage.ledger.checked(lane)
    assert 0 < (await stage.ledger.book(lane)).checked_at <= await stage.ledger.now_ms()


# -- whose they are


@promise
async def same_token_of_two_tenants_is_two_reservations(stage: Stage) -> None:
    lane = await keyless(stage)
    ours, theirs = owned_token("default", "t"), owned_token("acme", "t")
    assert (ours, tenant_of(ours), tenant_of(theirs)) == ("t", "default", "acme")
    first, second = await reserve(stage, lane, ours), await reserve(stage, lane, theirs)
    assert first != second
    assert {(r.tenant, r.nonce) for r in (await stage.ledger.book(lane)).reserved} == {
        ("default", first),
        ("acme", second),
    }
    assert (await stage.ledger.recycle(lane, ours)).nonce == first
    _, answer = await send(stage, lane, ours, second, "0xaa")
    assert answer.word == "unreserved"
    _, answer = await send(stage, lane, theirs, second, "0xbb")
    assert answer.word == "appended"
    for forged in ("acme t t", " t", "ac/me t"):
        with pytest.raises(InvalidInput):
            await stage.ledger.reserve(lane, forged, LONG_MS, None, SEED)
    with pytest.raises(InvalidInput, match="spaces"):
        owned_token("default", "acme t")


@promise
async def owner_has_only_so_many_unsent_numbers_and_others_go_on(stage: Stage) -> None:
    lane, cap = await keyless(stage), Cap("bob", 2)

    async def ask(token: str, cap: Cap | None = cap) -> str:
        return (await stage.ledger.reserve(lane, token, LONG_MS, None, SEED, cap)).word

    assert [await ask("t0"), await ask("t1"), await ask("t2")] == ["reserved", "reserved", "many"]
    assert await ask("t1") == "reserved", "a repeat is answered"
    assert await ask("a0", Cap("alice", 1)) == "reserved"
    assert await ask("n0", None) == "reserved"
    assert (await stage.ledger.turn(lane, "t3", LONG_MS, None, SEED, cap)).word == "many"
    await stage.ledger.recycle(lane, "t0")
    assert [await ask("t4"), await ask("t5")] == ["reserved", "many"]
    [nonce] = [r.nonce for r in (await stage.ledger.book(lane)).reserved if r.token == "t1"]
    assert (await send(stage, lane, "t1", nonce, "0xaa"))[1].word == "appended"
    assert [await ask("t6"), await ask("t7")] == ["reserved", "many"], "what was sent is no reservation any more"
    await stage.expire("deadlines", lane=lane)
    assert [await ask("t8"), await ask("t9"), await ask("t10")] == ["reserved", "reserved", "many"]
    for _ in range(2):  # over, then forgotten
        await expired(stage, lane)
    assert [await ask("t11"), await ask("t12"), await ask("t13")] == ["reserved", "reserved", "many"]


@promise
async def place_in_line_counts_once_however_often_it_asks(stage: Stage) -> None:
    lane, cap = await keyless(stage), Cap("bob", 2)

    async def ask(token: str) -> str:
        return (await stage.ledger.turn(lane, token, LONG_MS, None, SEED, cap)).word

    assert [await ask("t0"), await ask("t1"), await ask("t1"), await ask("t2")] == [
        "granted",
        "waiting",
        "waiting",
        "many",
    ]
    await stage.ledger.unlock(lane, "t0")
    assert [await ask("t1"), await ask("t2"), await ask("t3")] == ["granted", "waiting", "many"]


# -- lanes that callers bring into being


@promise
async def caller_brings_only_so_many_lanes_into_being(stage: Stage) -> None:
    names = [f"evm:1:0x{n:040x}" for n in range(4)]
    for name in names[:2]:
        assert await stage.ledger.admit_lane("bob", name, 2)
        await keyless(stage, name)
    assert not await stage.ledger.admit_lane("bob", names[2], 2)
    assert await stage.ledger.admit_lane("bob", names[0], 2), "a repeat is answered"
    assert await stage.ledger.admit_lane("alice", names[2], 2), "each caller has its own"


@promise
async def keyless_lane_that_nothing_depends_on_is_deleted_and_may_come_again(stage: Stage) -> None:
    lane = await keyless(stage)
    first = await reserve(stage, lane, "t0")
    await stage.ledger.recycle(lane, "t0")
    await stage.ledger.forget_lane(lane)
    assert await stage.ledger.lane(lane) is None
    assert lane not in {route.lane for route in await stage.ledger.routes()}
    with pytest.raises(NotFound):
        await stage.ledger.forget_lane(lane)
    await keyless(stage)
    assert await reserve(stage, lane, "t0") == first, "from the beginning"


@promise
async def lane_with_a_reserved_number_is_not_deleted(stage: Stage) -> None:
    lane = await keyless(stage)
    await reserve(stage, lane, "t0")
    with pytest.raises(NotAllowed, match="reserved"):
        await stage.ledger.forget_lane(lane)
    await expired(stage, lane)
    await stage.ledger.forget_lane(lane)


@promise
async def lane_with_a_record_is_not_deleted(stage: Stage) -> None:
    lane = await keyless(stage)
    entry, _ = await sent(stage, lane, "t0", "0xaa")
    with pytest.raises(NotAllowed, match="records"):
        await stage.ledger.forget_lane(lane)
    await stage.ledger.cancel(entry.intent.id)
    with pytest.raises(NotAllowed, match="records"):  # final, and its home does not have it yet
        await stage.ledger.forget_lane(lane)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 10))
    with pytest.raises(NotAllowed, match="may still land"):
        await stage.ledger.forget_lane(lane)
    assert await stage.ledger.lane(lane) is not None


@promise
async def lane_whose_sent_numbers_are_final_is_deleted(stage: Stage) -> None:
    lane = await keyless(stage)
    fence = await stage.own(lane)
    entry, nonce = await sent(stage, lane, "t0", "0xaa")
    await stage.ledger.cancel(entry.intent.id)
    await stage.ledger.retire(await stage.ledger.unretired(lane, 10))
    await stage.ledger.settle(fence, [], nonce)
    await stage.ledger.forget_lane(lane)


@promise
async def lane_that_signs_or_is_closed_is_never_deleted(stage: Stage) -> None:
    signing, closed = await stage.lane(), await keyless(stage)
    with pytest.raises(NotAllowed, match="signs by itself"):
        await stage.ledger.forget_lane(signing)
    await stage.ledger.set_lane(closed, LaneState.DRAINING)
    await stage.ledger.set_lane(closed, LaneState.CLOSED)
    with pytest.raises(NotAllowed, match="closed for ever"):
        await stage.ledger.forget_lane(closed)
    for lane in (signing, closed):
        assert await stage.ledger.lane(lane) is not None
