"""Budgets on Durable Objects: an object for each place, charged one after the other. What was charged is taken back
when a later one refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from txmanager.core.budgets import (
    SLOTS,
    Charge,
    Charged,
    Correction,
    OpenCharge,
    Usage,
    check_charges,
    slot_of,
)
from txmanager.core.models import IntentId, Record
from txmanager.ledger.durable import codec
from txmanager.ledger.durable.backend import HOME_OBJECTS
from txmanager.ledger.durable.link import Call
from txmanager.ledger.durable.registry import Registry
from txmanager.ledger.restoring import Restored, restored

_PAGE = 200


class BudgetBooks(Registry):
    def _budget_call(self, name: str, operation: str, **args: object) -> Call:
        return Call(self._shared_object(f"budgets-{slot_of(name)}"), operation, {"name": name, **args})

    async def charge(self, charges: Sequence[Charge]) -> list[Charged]:
        check_charges(charges)
        answers: list[Charged | None] = [None] * len(charges)
        turns: list[dict[str, int]] = [{} for _ in charges]
        for step in range(max((len(charge.budgets) for charge in charges), default=0)):
            waiting = [n for n, c in enumerate(charges) if step < len(c.budgets) and answers[n] is None]
            rows = await self._link.call_many([self._charge_call(charges[n], step) for n in waiting])
            for n, row in zip(waiting, rows, strict=True):
                budget = charges[n].budgets[step]
                if row["word"] == "charged":
                    turns[n][budget.name] = row["turn"]
                    continue
                usage = _usage(budget.name, row["usage"]) if "usage" in row else None
                answers[n] = Charged(row["word"], budget=budget if usage else None, usage=usage)
                await self.uncharge(charges[n].life, Charged("charged", turns[n]).fresh)
        return [answer or Charged("charged", turns[n]) for n, answer in enumerate(answers)]

    def _charge_call(self, charge: Charge, step: int) -> Call:
        budget = charge.budgets[step]
        terms = {
            "name": budget.name,
            "limit": budget.limit,
            "per_ms": budget.per_ms,
            "bucket_ms": budget.bucket_ms,
        }
        about = {"id": charge.id.text, "life": charge.life, "born": charge.born, "units": charge.units}
        return self._budget_call(budget.name, "charge", **about, budget=terms)

    async def uncharge(self, life: str, turns: Mapping[str, int]) -> int:
        calls = [self._budget_call(name, "uncharge", life=life, turn=turn) for name, turn in turns.items()]
        return sum(await self._link.call_many(calls))

    async def correct(self, corrections: Sequence[Correction]) -> int:
        calls = [
            self._budget_call(
                one.budget,
                "correct",
                life=one.life,
                units=one.units,
                at=one.at,
                per_ms=one.per_ms,
                bucket_ms=one.bucket_ms,
            )
            for one in corrections
        ]
        return sum(await self._link.call_many(calls))

    async def usage(self, names: Sequence[str]) -> list[Usage]:
        rows = await self._link.call_many([self._budget_call(name, "usage") for name in names])
        return [_usage(name, row) for name, row in zip(names, rows, strict=True)]

    async def override(self, name: str, limit: int | None, expected: int | None) -> bool:
        call = self._budget_call(name, "override", limit=limit, expected=expected)
        return bool(await self._link.call(call))

    async def due_charges(self, slot: int, count: int) -> list[OpenCharge]:
        rows = await self._shared(f"budgets-{slot}", "due", count=count)
        return [
            OpenCharge(row["budget"], row["life"], row["units"], row["turn"], row["born"], IntentId.parse(row["id"]))
            for row in rows
        ]

    async def look_later(self, charge: OpenCharge, after_ms: int) -> None:
        args = {"life": charge.life, "after_ms": after_ms}
        await self._link.call(self._budget_call(charge.budget, "look_later", **args))

    async def rebuild(self) -> int:
        places = [self._shared_object(f"budgets-{slot}") for slot in range(SLOTS)]
        rows = await self._link.call_many([Call(place, "history") for place in places])
        moved = {slot: row["found"] for slot, row in enumerate(rows) if row["stored"] != row["found"]}
        if not moved:
            return 0
        books = await restored(self._every_record(), moved.keys(), await self.now_ms())
        await self._link.call_many([self._restore_call(name, book) for name, book in books.items()])
        calls = [Call(places[slot], "rebuilt", {"found": found}) for slot, found in moved.items()]
        return sum(await self._link.call_many(calls))

    def _restore_call(self, name: str, book: Restored) -> Call:
        charges = [{"life": c.life, "units": c.units, "born": c.born, "id": c.id.text} for c in book.open]
        spans = {"per_ms": book.per_ms, "bucket_ms": book.bucket_ms}
        return self._budget_call(name, "restore", **spans, spent=list(book.spent.items()), open=charges)

    async def _every_record(self) -> AsyncIterator[Record]:
        """Lanes first: what is retired meanwhile is met again in its home, and so never missed."""
        for route in await self.routes():
            page = await self.browse(route.lane, None, _PAGE)
            while True:
                for record in page.records:
                    yield record
                if page.next is None:
                    break
                page = await self.browse(route.lane, page.next, _PAGE)
        for home in range(HOME_OBJECTS):
            after = ""
            while True:
                args = {"after": after, "count": _PAGE}
                rows = await self._link.call(Call(self._home_object(home), "finals", args))
                for row in rows:
                    yield codec.unpack_kept(IntentId.parse(row["id"]), row)
                if len(rows) < _PAGE:
                    break
                after = rows[-1]["id"]


def _usage(name: str, row: codec.Row) -> Usage:
    return Usage(name, row["open"], dict(row["spent"]), row["override"], row["moved"], row["now"])
