"""What a mempool has stored: read from Redis in one go, and as it follows from the pure machine."""

from __future__ import annotations

from typing import Any

from txmanager.core.mempool import Machine
from txmanager.core.mempool_book import Rank
from txmanager.ledger.redis.mempool import RedisMempool

Dump = dict[str, Any]
_SUMS = ("waiting_bytes", "kept_bytes", "seq", "fence", "quiet", "waiting", "processing", "unsure", "sent", "landed")


async def of_redis(mempool: RedisMempool) -> Dump:
    key = dict(zip((name.rpartition(":")[2] for name in mempool.keys), mempool.keys, strict=True))
    hashes = ("senders", "slots", "transactions", "bytes", "holds", "alive", "ended")
    orders = ("nonces", "ready", "gapped", "pending")
    times = ("due", "aging", "ends")
    found = await mempool.runner.plain(
        mempool.keys[0],
        *(("HGETALL", key[name]) for name in hashes),
        *(("ZRANGE", key[name], 0, -1) for name in orders),
        *(("ZRANGE", key[name], 0, -1, "WITHSCORES") for name in times),
        ("HMGET", key["counters"], *_SUMS),
    )
    made: Dump = {}
    for name, flat in zip((*hashes, *times), [*found[:7], *found[11:14]], strict=True):
        made[name] = {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}
    made |= {name: [m.decode() for m in members] for name, members in zip(orders, found[7:11], strict=True)}
    made["sums"] = [int(number or 0) for number in found[14]]
    return made


def of_machine(machine: Machine) -> Dump:
    book = machine.book
    states = [tx.state.value for tx in book.txs.values()]
    sums = [book.waiting_bytes, book.kept_bytes, machine.seq, machine.fences, machine.quiet_until]
    return {
        "senders": {
            s.address: f"{s.count:020d} {s.block} {s.height} {s.read_at} {s.pending:020d} {s.run:020d} {s.next:020d} "
            f"{s.paused_until} {s.done or '-'} {s.waiting} {s.waiting_bytes} {s.kept_bytes} "
            + (_member((-s.queued[0], -s.queued[1], s.queued[2])) if s.queued else "-")
            for s in book.senders.values()
        },
        "slots": {f"{s.address}:{n:020d}": " ".join(hs) for s in book.senders.values() for n, hs in s.slots.items()},
        "transactions": {
            t.hash: f"{t.sender} {t.nonce:020d} {t.price:078d} {t.seq} {t.size} {t.state} {int(t.gapped)} {t.at} "
            f"{t.moved_at} {t.tries} {t.sent_at} {t.call}"
            for t in book.txs.values()
        },
        "bytes": {t.hash: t.raw.decode() for t in book.txs.values()},
        "holds": {
            s.address: f"{h.owner} {h.fence} {h.call} {h.nonce:020d} {h.hash} {h.at} {h.until} {int(h.again)} "
            f"{h.after or '-'}"
            for s in book.holds.values()
            if (h := s.hold) is not None
        },
        "alive": {owner: f"{heard.since} {heard.last}" for owner, heard in machine.alive.items()},
        "ended": {
            e.hash: f"{e.sender} {e.nonce:020d} {e.reason} {e.at}\n{e.code}\n{e.message}" for e in book.ended.values()
        },
        "due": {address: str(at) for address, at in book.due.items()},
        "aging": {name: str(at) for name, at in book.aging.items()},
        "ends": {e.hash: str(e.at) for e in book.ended.values()},
        "nonces": sorted(f"{s.address}:{n:020d}" for s in book.senders.values() for n in s.nonces),
        "ready": [_member((-p, -seq, address)) for p, seq, address in reversed(book.ready)],
        "gapped": [_member(rank) for rank in book.gapped],
        "pending": [_member(rank) for rank in book.pending],
        "sums": [*sums, *(states.count(name) for name in _SUMS[5:])],
    }


def _member(rank: Rank) -> str:
    return f"{rank[0]:078d}:{9 * 10**15 + rank[1]:016d}:{rank[2]}"
