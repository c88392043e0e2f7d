"""Budgets on Redis: one script charges all budgets of an intent where one server holds them; in a cluster each place is
charged by itself, and what was charged is taken back when a later one refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txmanager.core.budgets import (
    SLOTS,
    Budget,
    Charge,
    Charged,
    Correction,
    OpenCharge,
    Usage,
    check_charges,
)
from txmanager.core.ledger import APPEND_WITHIN_MS, TOMBSTONE_MS
from txmanager.core.models import IntentId
from txmanager.ledger.redis import codec
from txmanager.ledger.redis.records import Records
from txmanager.ledger.redis.runner import Arg, Call
from txmanager.ledger.restoring import Restored, restored


class BudgetBooks(Records):
    async def charge(self, charges: Sequence[Charge]) -> list[Charged]:
        check_charges(charges)
        parts = [self._by_place(charge) for charge in charges]
        answers: list[Charged | None] = [None] * len(charges)
        turns: list[dict[str, int]] = [{} for _ in charges]
        for step in range(max((len(part) for part in parts), default=0)):
            waiting = [n for n, part in enumerate(parts) if step < len(part) and answers[n] is None]
            calls = [self._charge_call(charges[n], parts[n][step]) for n in waiting]
            common = (APPEND_WITHIN_MS, TOMBSTONE_MS, self._vouched)
            for n, reply in zip(waiting, await self._runner.run_joined(calls, common, durable=True), strict=True):
                answer = _charged(parts[n][step], reply)
                turns[n] |= answer.turns
                if answer.word != "charged":
                    answers[n] = answer
                    await self.uncharge(charges[n].life, Charged("charged", turns[n]).fresh)
        return [answer or Charged("charged", turns[n]) for n, answer in enumerate(answers)]

    @property
    def _vouched(self) -> str:
        return "vouched" if self.vouches else ""

    def _by_place(self, charge: Charge) -> list[list[Budget]]:
        """What can be charged in one step, in the order of the budgets."""
        groups: dict[int, list[Budget]] = {}
        for budget in charge.budgets:
            groups.setdefault(self._link.group(self._keys.budget(budget.name)[0]), []).append(budget)
        return list(groups.values())

    def _charge_call(self, charge: Charge, budgets: Sequence[Budget]) -> Call:
        keys: list[str] = []
        args: list[Arg] = [charge.id.text, charge.life, charge.born, charge.units, len(budgets)]
        for budget in budgets:
            keys += self._keys.budget(budget.name)
            args += (budget.name, budget.limit, budget.per_ms, budget.bucket_ms)
        return Call("charge", keys, args)

    async def uncharge(self, life: str, turns: Mapping[str, int]) -> int:
        calls = [Call("uncharge", self._keys.budget(name), (name, life, turn)) for name, turn in turns.items()]
        return sum(await self._runner.run_joined(calls)) if calls else 0

    async def correct(self, corrections: Sequence[Correction]) -> int:
        calls = [
            Call("correct", self._keys.budget(c.budget), (c.budget, c.life, c.units, c.at, c.per_ms, c.bucket_ms))
            for c in corrections
        ]
        return sum(await self._runner.run_joined(calls, (TOMBSTONE_MS,), durable=True)) if calls else 0

    async def usage(self, names: Sequence[str]) -> list[Usage]:
        calls = []
        for name in names:
            book, spent, _, history = self._keys.budget(name)
            calls.append(Call("usage", (book, spent, history), (self._vouched,)))
        replies = await self._runner.run_many(calls) if calls else []
        return [_usage(name, reply) for name, reply in zip(names, replies, strict=True)]

    async def override(self, name: str, limit: int | None, expected: int | None) -> bool:
        book, spent, _, _ = self._keys.budget(name)
        args = ["" if units is None else units for units in (limit, expected)]
        return bool(await self._runner.run("override", (book, spent), args, durable=True))

    async def due_charges(self, slot: int, count: int) -> list[OpenCharge]:
        agenda, _ = self._keys.budget_place(slot)
        now = await self.now_ms()
        due = ("ZRANGEBYSCORE", agenda, "-inf", now, "LIMIT", 0, count)
        [members] = await self._runner.plain(agenda, due)
        parts = [member.decode().split(" ", 2) for member in members]
        over = [member for member, (sort, _, _) in zip(members, parts, strict=True) if sort != "o"]
        if over:
            await self._runner.plain(agenda, ("ZREM", agenda, *over))
        open_ones = [(life, name) for sort, life, name in parts if sort == "o"]
        if not open_ones:
            return []
        asked = [("HGET", self._keys.budget(name)[0], f"o:{life}") for life, name in open_ones]
        entries = await self._runner.plain(agenda, *asked)
        return [_open(life, name, e) for (life, name), e in zip(open_ones, entries, strict=True) if e is not None]

    async def look_later(self, charge: OpenCharge, after_ms: int) -> None:
        agenda = self._keys.budget(charge.budget)[2]
        at = await self.now_ms() + after_ms
        await self._runner.plain(agenda, ("ZADD", agenda, "XX", at, f"o {charge.life} {charge.budget}"))

    async def rebuild(self) -> int:
        asked = [self._keys.budget_place(slot)[1] for slot in range(SLOTS)]
        replies = await self._runner.run_many([Call("rebuilt", (key,), (self._vouched, "")) for key in asked])
        moved = {slot: found for slot, (stored, found) in enumerate(replies) if stored != found}
        if not moved or self.vouches:
            return 0
        books = await restored(self._every_record(), moved.keys(), await self.now_ms())
        for name, book in books.items():
            await self._restore(name, book)
        calls = [Call("rebuilt", (asked[slot],), (self._vouched, found)) for slot, found in moved.items()]
        return sum(await self._runner.run_many(calls, durable=True))

    async def _restore(self, name: str, book: Restored) -> None:
        costs = [part for bucket, units in book.spent.items() for part in (bucket, units)]
        args: list[Arg] = [name, book.per_ms, book.bucket_ms, TOMBSTONE_MS, len(book.spent), *costs]
        for one in book.open:
            args += (one.life, one.units, one.born, one.id.text)
        await self._runner.run("restore", self._keys.budget(name)[:3], args, durable=True)


def _charged(budgets: Sequence[Budget], reply: Sequence[Any]) -> Charged:
    match reply:
        case [b"charged", *turns]:
            return Charged("charged", {b.name: int(turn) for b, turn in zip(budgets, turns, strict=True)})
        case [b"exhausted" | b"moved" as word, which, numbers]:
            budget = budgets[int(which) - 1]
            return Charged(word.decode(), budget=budget, usage=_usage(budget.name, numbers))
        case _:
            return Charged(reply[0].decode())


def _usage(name: str, reply: Sequence[Any]) -> Usage:
    open_units, override, moved, now, spent = reply
    costs = {int(bucket): int(units) for bucket, units in codec.pairs(spent).items()}
    return Usage(name, int(open_units), costs, int(override) if override else None, bool(moved), int(now))


def _open(life: str, name: str, entry: bytes) -> OpenCharge:
    units, turn, born, id = entry.decode().split(" ", 3)
    return OpenCharge(name, life, int(units), int(turn), int(born), IntentId.parse(id))
