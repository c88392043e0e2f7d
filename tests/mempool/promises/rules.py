"""Who is let in, beyond the table of boundaries."""

from __future__ import annotations

from tests.mempool.stage import Stage, address
from txmanager.core.admission import Count, State


async def same_bytes_twice_are_known_in_every_state(stage: Stage) -> None:
    await stage.open()
    offer = stage.offer("a", 0)
    counts = {offer.sender: Count(0, "0xb", 1)}
    [first] = await stage.mempool.admit([offer], counts, owner="me")
    assert first.grant is not None
    states = []
    for verdict in ("retry", "maybe", "sent", None):
        [again] = await stage.mempool.admit([offer], counts, owner="me")
        assert again.word == "known"
        assert again.grant is None
        states.append(again.state)
        if verdict is not None:
            grant = first.grant if verdict == "retry" else (await stage.take())[0]
            await stage.done(grant, verdict, more=False)
    await stage.observe("a", 1)
    [again] = await stage.mempool.admit([offer], counts, owner="me")
    assert [*states, again.state] == [State.PROCESSING, State.WAITING, State.UNSURE, State.SENT, State.LANDED]


async def same_bytes_twice_in_one_batch_are_stored_once(stage: Stage) -> None:
    await stage.open()
    offer = stage.offer("a", 0)
    answers = await stage.mempool.admit([offer, offer], {offer.sender: Count(0, "0xb", 1)})
    assert [a.word for a in answers] == ["admitted", "known"]
    assert (await stage.mempool.totals()).waiting == 1


async def nonce_that_is_processing_is_refused(stage: Stage) -> None:
    await stage.open()
    await stage.granted("a", 0)
    assert await stage.word("a", 0, 1_000) == "processing"
    assert await stage.word("a", 1) == "admitted"


async def nonce_below_the_count_is_low_in_every_state(stage: Stage) -> None:
    await stage.open()
    assert await stage.word("a", 4, count=5) == "low"
    await stage.granted("a", 5, count=5)
    offer, answer = await stage.admit("a", 4, count=5)
    assert (answer.word, answer.base) == ("low", 6)
    assert await stage.state(offer) is None


async def sent_nonce_is_low_on_a_strict_node_and_replaced_on_another(stage: Stage) -> None:
    await stage.open(strict=True)
    await stage.sent("a", 0)
    assert await stage.word("a", 0, 1_000) == "low"
    await stage.open(strict=False)
    assert await stage.word("a", 0, 10) == "replace_underpriced"
    grant = await stage.granted("a", 0, 11)
    assert grant.nonce == 0


async def unsure_nonce_is_low_on_a_strict_node(stage: Stage) -> None:
    await stage.open(strict=True)
    await stage.done(await stage.granted("a", 0), "maybe", more=False)
    assert await stage.word("a", 0, 1_000) == "low"


async def replacement_pays_the_bump(stage: Stage) -> None:
    await stage.open(bump_percent=10)
    await stage.waiting("a", 0, 100)
    assert await stage.word("a", 0, 109) == "replace_underpriced"
    assert await stage.word("a", 0, 110) == "admitted"
    await stage.waiting("b", 0, 0)
    assert await stage.word("b", 0, 0) == "replace_underpriced"
    assert await stage.word("b", 0, 1) == "admitted"


async def prices_of_78_digits_are_compared_exactly(stage: Stage) -> None:
    await stage.open()
    high = 10**77 + 2**60
    await stage.waiting("a", 0, high + 1)
    assert await stage.word("a", 0, high) == "replace_underpriced"
    assert await stage.word("a", 0, high + 1) == "replace_underpriced"
    assert await stage.word("a", 0, high + 2) == "admitted"


async def nonces_beyond_two_to_the_53_are_exact(stage: Stage) -> None:
    await stage.open()
    for first in (2**53, 10**15 - 1, 99_999 * 10**15 // 10 + 10**15 - 1, 2**64 - 6):
        name = f"s{first % 97}"
        await stage.waiting(name, first + 2, count=first)
        await stage.waiting(name, first, count=first)
        assert await stage.run(name) == first + 1
        await stage.waiting(name, first + 1, count=first)
        assert await stage.run(name) == first + 3
        [content] = [e for e in await stage.mempool.content(address(name)) if e.nonce == first + 2]
        assert not content.gapped


async def sender_without_a_fresh_count_is_cold_and_leaves_nothing(stage: Stage) -> None:
    await stage.open(count_fresh_ms=4_000)
    offer, answer = await stage.admit("a", 0, count=None)
    assert answer.word == "cold"
    assert await stage.state(offer) is None
    assert await stage.mempool.base(offer.sender) is None
    await stage.waiting("a", 0)
    assert await stage.word("a", 1, count=None) == "admitted"
    await stage.advance(4_000)
    assert await stage.word("a", 2, count=None) == "cold"
    await stage.observe("a", 0)
    assert await stage.word("a", 2, count=None) == "admitted"


async def nothing_is_called_gapped_before_the_count_is_read_again(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    assert await stage.word("a", 2, count=None) == "cold"
    offer = await stage.waiting("a", 2, count=1)
    assert await stage.gapped(offer)
    offer = await stage.waiting("b", 7, count=7)
    assert not await stage.gapped(offer)


async def batch_is_one_step_in_array_order(stage: Stage) -> None:
    await stage.open(capacity=3)
    offers = [stage.offer("a", n, price) for n, price in ((0, 5), (1, 5), (2, 5), (3, 5), (3, 6))]
    answers = await stage.mempool.admit(offers, {address("a"): Count(0, "0xb", 1)})
    assert [a.word for a in answers] == ["admitted", "admitted", "admitted", "underpriced", "admitted"]
    assert [a.base for a in answers[:3]] == [1, 2, 3]
    assert await stage.state(offers[2]) == "purged"


async def cold_sender_keeps_its_order_in_a_batch(stage: Stage) -> None:
    await stage.open()
    await stage.waiting("a", 0)
    offers = [stage.offer("a", 2), stage.offer("a", 1), stage.offer("b", 0)]
    answers = await stage.mempool.admit(offers, {address("b"): Count(0, "0xb", 1)})
    assert [a.word for a in answers] == ["cold", "cold", "admitted"]


async def refused_sender_leaves_nothing(stage: Stage) -> None:
    await stage.open(capacity=1)
    await stage.waiting("a", 0, 10)
    assert await stage.word("b", 0, 1) == "underpriced"
    assert await stage.mempool.base(address("b")) is None
    assert (await stage.mempool.totals()).senders == 1


async def one_sender_has_so_many_and_no_more(stage: Stage) -> None:
    await stage.open(per_sender=2)
    await stage.waiting("a", 0)
    await stage.waiting("a", 1)
    assert await stage.word("a", 2, 1_000) == "sender_full"
    assert await stage.word("a", 1, 1_000) == "admitted"
    assert await stage.word("b", 0) == "admitted"


async def one_sender_has_its_share_of_the_bytes(stage: Stage) -> None:
    await stage.open(kept_bytes=1_600)
    await stage.waiting("a", 0, size=60)
    assert await stage.word("a", 1, 1_000, size=41) == "sender_full"
    assert await stage.word("a", 1, size=40) == "admitted"
    assert await stage.word("a", 0, 11, size=61) == "sender_full"
    assert await stage.word("b", 0, size=101) == "admitted"


async def bytes_are_bounded_and_only_dearer_ones_make_room(stage: Stage) -> None:
    await stage.open(kept_bytes=320)
    first = [await stage.waiting(name, 0, price, size=80) for name, price in (("a", 5), ("b", 6), ("c", 7), ("d", 8))]
    assert await stage.word("e", 0, 5, size=80) == "full"
    assert await stage.word("e", 0, 7, size=200) == "full"
    assert [await stage.state(o) for o in first] == [State.WAITING] * 4
    await stage.waiting("e", 0, 7, size=160)
    assert [await stage.state(o) for o in first] == ["purged", "purged", State.WAITING, State.WAITING]
    assert (await stage.mempool.totals()).waiting_bytes == 320


async def replacement_cannot_grow_beyond_the_bytes(stage: Stage) -> None:
    await stage.open(kept_bytes=100)
    await stage.waiting("a", 0, 5, size=50)
    await stage.waiting("b", 0, 6, size=50)
    assert await stage.word("a", 0, 6, size=51) == "full"
    assert await stage.word("a", 0, 7, size=51) == "admitted"
    assert (await stage.mempool.totals()).waiting_bytes == 51


async def gapped_newcomer_never_purges_pending_ones_for_bytes(stage: Stage) -> None:
    await stage.open(kept_bytes=100)
    await stage.waiting("a", 0, 5, size=50)
    assert await stage.word("b", 1, 1_000, size=60) == "full"
    assert await stage.word("b", 0, 1_000, size=60) == "admitted"


async def nonce_the_node_has_from_somebody_else_is_no_gap(stage: Stage) -> None:
    await stage.open()
    offers = [stage.offer("a", 7), stage.offer("a", 5)]
    answers = await stage.mempool.admit(offers, {address("a"): Count(5, "0xb", 1, pending=7)}, owner="me")
    assert [(a.word, a.gapped) for a in answers] == [("admitted", False), ("admitted", False)]
    [grant] = [a.grant for a in answers if a.grant is not None]
    assert grant.nonce == 5
    assert (await stage.done(grant)).grant is not None


async def high_watermark_of_one_still_purges_no_dearer_gap(stage: Stage) -> None:
    await stage.open(capacity=2, high_watermark=1.0)
    await stage.waiting("a", 0, 5)
    await stage.waiting("b", 1, 9)
    assert await stage.word("c", 1, 8) == "underpriced"
