"""Who is let into a mempool, and who leaves for it: rules 3 to 7. Questions only, nothing changes here.

Capacity, watermark and the limit of one sender count waiting transactions. A replacement of a waiting one takes no new
place; its bytes count all the same.
"""

from __future__ import annotations

from itertools import chain

from txmanager.core.admission import Offer, State, Word
from txmanager.core.mempool_book import Book, Sender, Tx


def refusal(book: Book, s: Sender, offer: Offer) -> Word | None:
    """Why it is not let in; None when it is."""
    if s.hold is not None and s.hold.nonce == offer.nonce:  # rule 3
        return "processing"
    if offer.nonce < s.count:  # rule 4
        return "low"
    old = book.newest(s, offer.nonce)
    if old is not None and book.limits.strict and (old.state is not State.WAITING or old.seq <= book.doubt):
        return "low"
    if old is not None and old.price > book.limits.outbid(offer.price):  # rule 5
        return "replace_underpriced"
    if _sender_full(book, s, offer):
        return "sender_full"
    word = _crowded_out(book, s, offer)
    if word is not None:
        return word
    return "full" if victims(book, s, offer) is None else None


def replaced(book: Book, s: Sender, offer: Offer) -> Tx | None:
    """The waiting transaction whose place it takes."""
    old = book.newest(s, offer.nonce)
    return old if old is not None and old.state is State.WAITING else None


def _sender_full(book: Book, s: Sender, offer: Offer) -> bool:
    old = replaced(book, s, offer)
    others = s.waiting - (old is not None)
    size = s.waiting_bytes + len(offer.raw) - (old.size if old is not None else 0)
    return others >= book.limits.per_sender or (others > 0 and size > book.limits.sender_bytes)


def _crowded_out(book: Book, s: Sender, offer: Offer) -> Word | None:
    """Rule 6: in a crowd a gapped one must beat a gapped one; in a full mempool any must beat the cheapest.
    A replacement has beaten one already."""
    full = book.waiting >= book.limits.capacity
    if offer.nonce > s.run:
        if not full and book.waiting <= book.limits.watermark:
            return None
        if not book.gapped:
            return "gap"
        return "underpriced" if offer.price <= book.gapped[0][0] else None
    if not full:
        return None
    lowest = min(order[0][0] for order in (book.gapped, book.pending) if order)
    return "underpriced" if offer.price <= lowest else None


def victims(book: Book, s: Sender, offer: Offer) -> list[Tx] | None:
    """Rule 7, whom it purges: the cheapest gapped first, then the cheapest pending. A gapped one purges gapped ones
    only; for bytes alone it purges cheaper ones only. None when that is not enough."""
    old = replaced(book, s, offer)
    excess = book.waiting + 1 - book.limits.capacity if old is None else 0
    excess_bytes = book.waiting_bytes + len(offer.raw) - (old.size if old is not None else 0) - book.limits.kept_bytes
    found: list[Tx] = []
    for rank in chain(book.gapped, () if offer.nonce > s.run else book.pending):
        if excess <= 0 and excess_bytes <= 0:
            break
        tx = book.txs[rank[2]]
        if tx is old:
            continue
        if excess <= 0 and tx.price >= offer.price:
            return None
        found.append(tx)
        excess -= 1
        excess_bytes -= tx.size
    return found if excess <= 0 and excess_bytes <= 0 else None
