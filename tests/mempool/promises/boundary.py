"""Rules 1 to 7 at their edges. Each row was worked out by hand from the rules' text, not from the code.

Capacity is 10 and the high watermark 0.9, so "exceeds the watermark" means 10 waiting or more, and "exceeds the
capacity" means that the newcomer would be the 11th. Prices are whole numbers; nonces count from 0 and every count is 0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tests.mempool.stage import Stage
from txmanager.core.admission import Offer

NINE = [("s", n, 50) for n in range(9)]
TEN = [("s", n, 50) for n in range(10)]


class Row(NamedTuple):
    before: list[tuple[str, int, int]]
    """Sender, nonce and price of what waits."""
    offer: tuple[str, int, int]
    word: str
    gone: Sequence[tuple[str, int, int]] = ()
    """What is not there any more afterwards."""
    gapped: Sequence[tuple[str, int, int]] = ()
    """What waits for a gap afterwards, the newcomer included."""


GAP_5 = ("g", 1, 5)
GAP_7 = ("h", 1, 7)
ROWS = {
    # rule 4: not lower than the count, which is 0
    "nonce_equal_to_the_count_is_accepted_from_zero": Row([], ("a", 0, 1), "admitted"),
    # pending and gapped: a gap is above the run
    "next_nonce_of_the_run_is_no_gap": Row([("a", 0, 1)], ("a", 1, 1), "admitted"),
    "nonce_above_the_run_is_a_gap": Row([("a", 0, 1)], ("a", 2, 1), "admitted", gapped=[("a", 2, 1)]),
    "first_nonce_above_the_count_is_a_gap": Row([], ("a", 1, 1), "admitted", gapped=[("a", 1, 1)]),
    "missing_nonce_closes_the_gap": Row([("a", 0, 1), ("a", 2, 1)], ("a", 1, 1), "admitted"),
    # rule 5: only a higher price replaces
    "replacement_at_a_lower_price_is_refused": Row([("a", 0, 5)], ("a", 0, 4), "replace_underpriced"),
    "replacement_at_the_same_price_is_refused": Row([("a", 0, 5)], ("a", 0, 5), "replace_underpriced"),
    "replacement_at_a_higher_price_takes_the_place": Row([("a", 0, 5)], ("a", 0, 6), "admitted", gone=[("a", 0, 5)]),
    "replacement_of_a_gapped_one_stays_gapped": Row(
        [("a", 2, 5)], ("a", 2, 6), "admitted", gone=[("a", 2, 5)], gapped=[("a", 2, 6)]
    ),
    "replacement_is_exempt_from_the_capacity": Row([*NINE, ("a", 0, 5)], ("a", 0, 6), "admitted", gone=[("a", 0, 5)]),
    "replacement_of_a_gapped_one_is_exempt_from_the_watermark": Row(
        [*NINE, ("a", 1, 5)], ("a", 1, 6), "admitted", gone=[("a", 1, 5)], gapped=[("a", 1, 6)]
    ),
    # rule 6: nine waiting do not exceed the watermark of nine, ten do
    "gap_at_the_watermark_is_accepted": Row(NINE, ("a", 1, 1), "admitted", gapped=[("a", 1, 1)]),
    "gap_above_the_watermark_without_gapped_ones_is_refused": Row(TEN, ("a", 1, 99), "gap"),
    "gap_above_the_watermark_must_beat_the_cheapest_gapped": Row(
        [*NINE, GAP_5], ("a", 1, 4), "underpriced", gapped=[GAP_5]
    ),
    "gap_above_the_watermark_at_an_equal_price_is_refused": Row(
        [*NINE, GAP_5], ("a", 1, 5), "underpriced", gapped=[GAP_5]
    ),
    "gap_above_the_watermark_that_is_dearer_purges_the_cheapest_gapped": Row(
        [*NINE, GAP_5], ("a", 1, 6), "admitted", gone=[GAP_5], gapped=[("a", 1, 6)]
    ),
    "gap_above_the_watermark_need_not_beat_pending_ones": Row(
        [*NINE, GAP_5], ("a", 1, 49), "admitted", gone=[GAP_5], gapped=[("a", 1, 49)]
    ),
    "last_free_place_is_taken_at_any_price": Row(NINE, ("a", 0, 1), "admitted"),
    "eleventh_at_the_lowest_price_is_refused": Row(TEN, ("a", 0, 50), "underpriced"),
    "eleventh_below_the_lowest_price_is_refused": Row(TEN, ("a", 0, 49), "underpriced"),
    "eleventh_above_the_lowest_price_purges_the_newest_of_equals": Row(
        TEN, ("a", 0, 51), "admitted", gone=[("s", 9, 50)]
    ),
    "eleventh_must_beat_the_lowest_even_if_that_is_gapped": Row(
        [*NINE, GAP_5], ("a", 0, 5), "underpriced", gapped=[GAP_5]
    ),
    # rule 7: gapped ones go first, however dear; then pending ones; the cheapest first
    "gapped_are_purged_before_cheaper_pending_ones": Row(
        [*NINE, ("g", 1, 90)], ("a", 0, 51), "admitted", gone=[("g", 1, 90)]
    ),
    "cheapest_gapped_is_purged_first": Row(
        [*NINE[:8], GAP_7, GAP_5], ("a", 0, 6), "admitted", gone=[GAP_5], gapped=[GAP_7]
    ),
    "newest_of_equally_cheap_gapped_is_purged_first": Row(
        [*NINE[:8], GAP_5, ("k", 1, 5)], ("a", 0, 6), "admitted", gone=[("k", 1, 5)], gapped=[GAP_5]
    ),
    "cheapest_pending_is_purged_when_nothing_is_gapped": Row(
        [*NINE, ("p", 0, 7)], ("a", 0, 8), "admitted", gone=[("p", 0, 7)]
    ),
    "successors_of_a_purged_one_become_gapped": Row(
        [*[("s", n, 50) for n in range(7)], ("p", 0, 7), ("p", 1, 60), ("p", 2, 60)],
        ("a", 0, 8),
        "admitted",
        gone=[("p", 0, 7)],
        gapped=[("p", 1, 60), ("p", 2, 60)],
    ),
    "closing_a_gap_in_a_full_mempool_may_purge_what_it_would_join": Row(
        [*NINE, ("a", 1, 60)], ("a", 0, 51), "admitted", gone=[("a", 1, 60)]
    ),
}


def _promise(row: Row) -> Callable[[Stage], Awaitable[None]]:
    async def promise(stage: Stage) -> None:
        await stage.open(capacity=10, high_watermark=0.9, bump_percent=0)
        made: dict[tuple[str, int, int], Offer] = {}
        for one in row.before:
            made[one] = await stage.waiting(*one)
        made[row.offer], answer = await stage.admit(*row.offer)
        assert answer.word == row.word
        shown = {entry.hash: entry for entry in await stage.mempool.content()}
        refused = [] if row.word == "admitted" else [row.offer]
        assert {one for one, offer in made.items() if offer.hash not in shown} == {*row.gone, *refused}
        assert {one for one, offer in made.items() if offer.hash in shown and shown[offer.hash].gapped} == {*row.gapped}
        totals = await stage.mempool.totals()
        assert totals.waiting == len(shown) <= 10
        assert totals.gapped == len(row.gapped)

    return promise


PROMISES = {name: _promise(row) for name, row in ROWS.items()}
