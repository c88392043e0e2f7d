"""`RedisMempool`: one chain's mempool on Redis or Valkey, shared by all instances. One chain is one slot.

Each step is one script, named after it. Python decides what bytes and settings tell and builds the arguments; Lua
compares and writes. Only `admit` waits for durability.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from txmanager.core.admission import (
    ALIVE_MS,
    ENDED_LIMIT,
    ENDED_MS,
    Admitted,
    Alive,
    Base,
    Count,
    Done,
    End,
    Ended,
    EndReason,
    Entry,
    Expired,
    Followed,
    Grant,
    Limits,
    Observed,
    Offer,
    State,
    Taken,
    Totals,
    Verdict,
    check_counts,
    check_offers,
    check_owner,
    kept_text,
)
from txmanager.core.mempool import PAGE
from txmanager.ledger.redis.backend import Backend
from txmanager.ledger.redis.runner import Arg

_PARTS = (
    *("counters", "senders", "nonces", "slots", "transactions", "bytes", "ready", "gapped", "pending"),
    *("holds", "due", "aging", "alive", "ended", "ends"),
)
_DROPPED_AT_ONCE = 500


class RedisMempool(Backend):
    def __init__(
        self,
        url: str,
        chain_id: int,
        limits: Limits,
        *,
        token: Callable[[], str] = lambda: secrets.token_hex(8),
        **options: Any,
    ) -> None:
        """`options` are those of the ledger: prefix, durability, replicas, timeouts."""
        super().__init__(url, **options)
        self.limits = limits.check()
        self._token = token
        start = f"{self._keys.prefix}:{{mempool:{chain_id}}}:"
        self.keys = [start + part for part in _PARTS]
        self._wake, self._word = f"{self._keys.prefix}:wake:mempool:{chain_id}", f"{self._keys.prefix}:word:{chain_id}"
        self._limits = json.dumps(
            {
                "capacity": limits.capacity,
                "watermark": limits.watermark,
                "per_sender": limits.per_sender,
                "kept_bytes": limits.kept_bytes,
                "sender_bytes": limits.sender_bytes,
                "executors": limits.executors,
                "hold_ms": limits.hold_ms,
                "idle_ms": limits.idle_ms,
                "count_fresh_ms": limits.count_fresh_ms,
                "quiet_ms": limits.quiet_ms,
                "resend_ms": limits.resend_ms,
                "strict": limits.strict,
                "order": limits.order,
                "next_after": limits.next_after,
                "alive_ms": ALIVE_MS,
                "ended_ms": ENDED_MS,
                "ended_limit": ENDED_LIMIT,
                "page": PAGE,
                "wake": self._wake,
                "word": self._word,
            }
        )

    async def _run(self, step: str, *args: Arg, durable: bool = False) -> Any:
        return await self._runner.run(f"mempool_{step}", self.keys, [self._limits, *args], durable=durable)

    # -- steps

    async def admit(
        self, offers: Sequence[Offer], counts: Mapping[str, Count] | None = None, *, owner: str = ""
    ) -> list[Admitted]:
        counts = counts or {}
        check_offers(offers, counts)
        if owner:
            check_owner(owner)
        args: list[Arg] = [owner, self._token(), len(counts), *_counts(counts)]
        for offer in offers:
            beats = self.limits.outbid(offer.price)
            args += (offer.hash, offer.sender, _nonce(offer.nonce), _price(offer.price))
            args += (_price(beats) if beats >= 0 else "", offer.raw)
        answers, granted = await self._run("admit", *args, durable=True)
        raw = {offer.hash: offer.raw for offer in offers}
        grants = {grant.hash: grant for grant in (_grant(g, raw[g[0].decode()]) for g in granted)}
        return [
            Admitted(
                word.decode(),
                int(base),
                gapped == b"1",
                grants.get(offer.hash) if word == b"admitted" else None,
                replaced.decode(),
                State(state.decode()) if state else None,
            )
            for offer, (word, base, gapped, replaced, state) in zip(offers, answers, strict=True)
        ]

    async def take(self, owner: str, most: int = 1) -> Taken:
        check_owner(owner)
        granted, forced, next_ms = await self._run("take", owner, self._token(), most)
        grants = sorted((_grant(g, raw) for g, raw in granted), key=lambda g: int(g.fence.partition(".")[0]))
        return Taken(tuple(grants), int(forced), int(next_ms) if next_ms else None)

    async def done(
        self,
        grant: Grant,
        verdict: Verdict,
        *,
        owner: str,
        message: str = "",
        code: str = "",
        wait_ms: int = 0,
        more: bool = True,
    ) -> Done:
        check_owner(owner)
        args = (grant.sender, grant.fence, verdict, kept_text(message), _line(code), wait_ms, int(more))
        word, granted, held_ms, waiting = await self._run("done", owner, self._token(), *args)
        return Done(word.decode(), _grant(*granted) if granted else None, int(held_ms), int(waiting))

    async def observe(self, counts: Mapping[str, Count]) -> dict[str, Observed]:
        check_counts(counts)
        if not counts:
            return {}
        answers = await self._run("observe", *_counts(counts))
        return {
            address: Observed(word.decode(), _base(base), tuple(hash.decode() for hash in landed))
            for address, (word, base, landed) in zip(counts, answers, strict=True)
        }

    async def reopen(self, hashes: Sequence[str]) -> list[str]:
        return [hash.decode() for hash in await self._run("reopen", *hashes)]

    async def end(self, ends: Sequence[End]) -> list[str]:
        return await self._end(ends, " processing ")

    async def _end(self, ends: Sequence[End], stays: str) -> list[str]:
        args: list[Arg] = [stays]
        for one in ends:
            args += (one.hash, one.reason, kept_text(one.message), _line(one.code))
        return [hash.decode() for hash in await self._run("end", *args)]

    async def drop(self, *, hash: str = "", sender: str = "", all: bool = False) -> list[str]:
        """Of many, some at a time: each page is one step."""
        hashes = [hash] if hash else []
        if sender or all:
            lowest, end = ("-", "+") if all else (f"[{sender}:", f"({sender};")
            hashes += [found.decode() for found in await self._run("read", "place", lowest, end)]
        dropped: list[str] = []
        for at in range(0, len(hashes), _DROPPED_AT_ONCE):
            page = [End(one, "dropped") for one in hashes[at : at + _DROPPED_AT_ONCE]]
            dropped += await self._end(page, " processing unsure sent landed ")
        return dropped

    async def expire(self) -> Expired:
        ended, more = await self._run("expire", PAGE)
        return Expired(tuple(hash.decode() for hash in ended), more == b"1")

    async def heartbeat(self, owner: str) -> Alive:
        check_owner(owner)
        lapsed, born = await self._run("heartbeat", owner)
        return Alive(lapsed == b"1", born.decode())

    async def leave(self, owner: str) -> None:
        alive = self.keys[_PARTS.index("alive")]
        await self._runner.plain(alive, ("HDEL", alive, owner), ("PUBLISH", self._wake, "ask"))

    # -- reading

    async def base(self, sender: str) -> Base | None:
        return _base(await self._run("read", "base", sender))

    async def find(self, hash: str) -> Entry | Ended | None:
        found = await self._run("read", "find", hash)
        if not found:
            return None
        return _entry(found[1]) if found[0] == b"live" else _ended(hash, found[1].decode())

    async def content(self, sender: str = "", after: tuple[str, int] | None = None, most: int = 1_000) -> list[Entry]:
        lowest, end = (f"[{sender}:", f"({sender};") if sender else ("-", "+")
        if after is not None:
            lowest = max(lowest, f"({after[0]}:{_nonce(after[1])}", key=lambda bound: bound[1:])
        return [_entry(fields) for fields in await self._run("read", "content", lowest, end, most)]

    async def followed(self, after: str = "", most: int = 1_000) -> list[Followed]:
        return [
            Followed(
                sender.decode(),
                cast(Base, _base(base)),
                gaps == b"1",
                tuple((int(nonce), hash.decode(), State(state.decode())) for nonce, hash, state in out),
            )
            for sender, base, gaps, out in await self._run("read", "followed", f"({after};" if after else "-", most)
        ]

    async def totals(self) -> Totals:
        return Totals(*(int(number) for number in await self._run("read", "totals")))

    # -- hints

    async def wait_ready(self, timeout_s: float) -> bool:
        return bool(await self._subscriber.wake(frozenset((self._wake,)), timeout_s))

    async def wait_word(self, hash: str, timeout_s: float) -> None:
        await self._subscriber.final(self._word, hash, timeout_s)


def _nonce(nonce: int) -> str:
    return f"{nonce:020d}"


def _price(price: int) -> str:
    return f"{price:078d}"


def _line(text: str) -> str:
    return kept_text(text).replace("\n", " ")


def _counts(counts: Mapping[str, Count]) -> list[Arg]:
    args: list[Arg] = []
    for address, read in counts.items():
        args += (address, _nonce(read.count), read.block or "-", str(read.height), _nonce(read.pending))
        args.append(read.orphaned or "-")
    return args


def _base(fields: Sequence[bytes]) -> Base | None:
    if not fields:
        return None
    count, block, height, run, fresh = fields
    return Base(int(count), "" if block == b"-" else block.decode(), int(height), int(run), fresh == b"1")


def _grant(fields: Sequence[bytes], raw: bytes) -> Grant:
    hash, sender, nonce, fence, left_ms, again, tries, waited_ms, waiting = fields
    return Grant(
        hash.decode(),
        sender.decode(),
        int(nonce),
        raw,
        fence.decode(),
        int(left_ms),
        again == b"1",
        int(tries),
        int(waited_ms),
        int(waiting),
    )


def _entry(fields: Sequence[bytes]) -> Entry:
    hash, sender, nonce, price, raw, state, gapped, at, moved_at, tries = fields
    return Entry(
        hash.decode(),
        sender.decode(),
        int(nonce),
        int(price),
        raw,
        State(state.decode()),
        gapped == b"1",
        int(at),
        int(moved_at),
        int(tries),
    )


def _ended(hash: str, text: str) -> Ended:
    first, code, message = text.split("\n", 2)
    sender, nonce, reason, at = first.split(" ")
    return Ended(hash, sender, int(nonce), cast(EndReason, reason), message, code, int(at))
