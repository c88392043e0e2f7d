"""What is true of a mempool after every step, worked out from scratch: no order is believed, each is built again."""

from __future__ import annotations

from txmanager.core.admission import Limits, State
from txmanager.core.mempool import Machine
from txmanager.core.mempool_book import Sender, Tx

KEPT = (State.PROCESSING, State.UNSURE, State.SENT, State.LANDED)


def check(machine: Machine) -> None:
    """The map, the sender queues (pending, gapped), the chain queue, and every sum."""
    book, limits = machine.book, machine.limits
    txs = list(book.txs.values())
    waiting = [tx for tx in txs if tx.state is State.WAITING]
    assert len(waiting) <= limits.capacity
    assert book.waiting_bytes == sum(tx.size for tx in waiting) <= limits.kept_bytes
    assert book.kept_bytes == sum(tx.size for tx in txs if tx.state in KEPT)
    assert len(book.holds) <= limits.executors
    assert sorted(tx.hash for tx in txs) == sorted(
        h for s in book.senders.values() for hs in s.slots.values() for h in hs
    )
    for s in book.senders.values():
        _check_sender(machine, s)
    assert book.gapped == sorted(tx.cheapness for tx in waiting if tx.nonce > book.senders[tx.sender].run)
    assert book.pending == sorted(tx.cheapness for tx in waiting if tx.nonce < book.senders[tx.sender].run)
    heads = [(s, _head(machine, s)) for s in book.senders.values()]
    assert book.ready == sorted((-tx.price, tx.seq, s.address) for s, tx in heads if tx is not None)
    assert not set(book.txs) & set(book.ended)
    aging = {tx.hash for tx in txs if tx.gapped or tx.state in (State.SENT, State.UNSURE)}
    assert set(book.aging) == aging | {s.address for s in book.senders.values() if not s.slots}
    for s in book.senders.values():
        if s.paused_until:
            assert book.due[s.address] <= s.paused_until
        if limits.resend_ms:
            newest = [book.txs[hashes[0]] for hashes in s.slots.values()]
            sent = [tx.moved_at for tx in newest if tx.state is State.SENT]
            assert all(s.address in book.due for _ in sent)


def _check_sender(machine: Machine, s: Sender) -> None:
    book = machine.book
    assert s.nonces == sorted(s.slots)
    assert all(s.slots.values())
    txs = [book.txs[h] for hashes in s.slots.values() for h in hashes]
    assert all(tx.sender == s.address and tx.hash in s.slots[tx.nonce] for tx in txs)
    assert all((tx.state is State.LANDED) == (tx.nonce < s.count) for tx in txs)
    run = s.floor
    while run in s.slots:
        run += 1
    assert s.run == run
    if machine.limits.order == "nonce":
        assert s.next == first_unsent(machine, s)
    mine = [tx for tx in txs if tx.state is State.WAITING]
    assert (s.waiting, s.waiting_bytes) == (len(mine), sum(tx.size for tx in mine))
    assert s.kept_bytes == sum(tx.size for tx in txs if tx.state in KEPT)
    assert all(tx.gapped == (tx.nonce > run) for tx in mine)
    held = [tx for tx in txs if tx.state is State.PROCESSING]
    assert (s.hold is None) == (not held) == (s.address not in book.holds)
    assert [tx.hash for tx in held] == ([] if s.hold is None else [s.hold.hash]), "one at a time for each sender"
    older = [book.txs[h].state for hashes in s.slots.values() for h in hashes[1:]]
    assert all(state in (State.SENT, State.LANDED, State.UNSURE) for state in older)


def first_unsent(machine: Machine, s: Sender) -> int:
    nonce = s.count
    last = max([s.floor, *s.slots]) + 1
    while nonce <= last:
        tx = machine.book.newest(s, nonce)
        if tx is None and nonce >= s.floor:
            return nonce
        if tx is not None and tx.state not in (State.SENT, State.LANDED):
            return nonce
        nonce += 1
    return nonce


def _head(machine: Machine, s: Sender) -> Tx | None:
    limits: Limits = machine.limits
    if s.hold is not None or s.paused_until:
        return None
    newest = [machine.book.txs[s.slots[n][0]] for n in s.nonces if n >= s.count]
    able = [tx for tx in newest if tx.state in (State.WAITING, State.UNSURE)]
    if limits.order == "nonce":
        able = [tx for tx in able if tx.nonce == first_unsent(machine, s)]
        if limits.next_after == "count":
            able = [tx for tx in able if tx.nonce <= s.floor]
    head = min(able, key=lambda tx: tx.seq, default=None)
    if head is None or (
        head.state is State.WAITING and s.kept_bytes and s.kept_bytes + head.size > limits.sender_bytes
    ):
        return None
    return head
