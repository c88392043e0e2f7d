"""May the lane pay for it? A pure rule from what was read and what it costs to one of four words.

What is wrong with one intent ends that intent; what is wrong with the lane stops the lane. An intent that asks for more
than the whole balance of a lane that has its reserve fails alone. One that only has to wait for what this lane sent
before it waits at the head. A lane below its reserve pauses, and nothing fails for want of funds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Literal

from txmanager.core.values import value


@value(frozen=True, slots=True)
class Cost:
    """What a transaction may take at worst, in the chain's smallest unit."""

    fee: int = 0
    deposit: int = 0
    """What it moves beside the fee."""
    usual: int | None = None
    """The part of the fee that any lane should have. Who buys far more gas than others do asks for too much: a lane
    without that is not poor. None: all of it."""


FREE = Cost()
PurseName = Literal["account", "allowance", "gas_key"]


@value(frozen=True, slots=True)
class Purse:
    """One place that a lane pays from. A lane may have several: what a key may spend, and what its account has."""

    name: PurseName
    balance: int
    """What can be spent: without what the chain keeps locked."""
    fees: bool = True
    deposits: bool = True

    def share(self, cost: Cost) -> int:
        """How much of a cost this purse pays."""
        return (cost.fee if self.fees else 0) + (cost.deposit if self.deposits else 0)


@value(frozen=True, slots=True)
class Funds:
    """All purses of a lane, read at one height."""

    purses: tuple[Purse, ...]
    height: int
    refunds: bool = False
    """More may come back: this chain takes all gas ahead, and returns what was not used some blocks later."""

    def highest(self, other: Funds) -> Funds:
        """Of two readings the higher balance of each purse."""
        before = {purse.name: purse.balance for purse in other.purses}
        purses = [replace(p, balance=max(p.balance, before.get(p.name, 0))) for p in self.purses]
        return Funds(tuple(purses), self.height, self.refunds)


@value(frozen=True, slots=True)
class Reserve:
    """How much a lane has when it is not poor."""

    wanted: int | None = None
    """What an operator wants the account to have; a lane with less signs nothing."""
    max_deposit: int | None = None
    """What one intent may move. Without `wanted`, a lane that has this and the fee is not poor."""

    def of(self, purse: Purse, cost: Cost) -> int:
        if self.wanted is not None and purse.deposits:
            return self.wanted
        return purse.share(Cost(cost.fee if cost.usual is None else cost.usual, self.max_deposit or 0))


class Word(IntEnum):
    """What to do with an intent; of several purses the highest word counts."""

    PROCEED = 0
    WAIT = 1
    """It fits the balance, not beside what this lane sent: it waits at the head."""
    FAIL = 2
    """It asks for more than the lane has, and the lane is not poor: it ends alone, before it is signed."""
    PAUSE = 3
    """The lane is poor: it waits for funds, and nothing fails."""


@value(frozen=True, slots=True)
class Finding:
    """The word, and the purse that it is about."""

    word: Word
    purse: Purse
    needs: int
    """What the purse must have for it."""

    @property
    def message(self) -> str:
        has = f"the lane's {self.purse.name.replace('_', ' ')} has {self.purse.balance}"
        match self.word:
            case Word.PROCEED:
                return f"{has}, and it needs {self.needs}"
            case Word.WAIT:
                return f"{has}; it needs {self.needs} beside what is on its way"
            case Word.FAIL:
                return f"it may cost {self.needs}, and {has}; nothing was spent"
            case Word.PAUSE:
                return f"{has}, and needs {self.needs} to go on"


def judge(cost: Cost, funds: Funds, committed: Cost, reserve: Reserve) -> Finding:
    """`committed` is what this lane's recorded attempts may still take from what was read."""
    return max((_ask(cost, purse, committed, reserve) for purse in funds.purses), key=lambda found: found.word)


def _ask(cost: Cost, purse: Purse, committed: Cost, reserve: Reserve) -> Finding:
    needs, floor = purse.share(cost), reserve.of(purse, cost)
    if purse.deposits and reserve.wanted is not None and purse.balance < reserve.wanted:
        return Finding(Word.PAUSE, purse, max(reserve.wanted, needs))
    if needs + purse.share(committed) <= purse.balance:
        return Finding(Word.PROCEED, purse, needs)
    if needs <= purse.balance:
        return Finding(Word.WAIT, purse, needs)
    if floor <= purse.balance:
        return Finding(Word.FAIL, purse, needs)
    return Finding(Word.PAUSE, purse, needs)


def total(costs: Iterable[Cost]) -> Cost:
    fee = deposit = 0
    for cost in costs:
        fee += cost.fee
        deposit += cost.deposit
    return Cost(fee, deposit)


def dearest(costs: Iterable[Cost]) -> Cost:
    """What several attempts of one number may take: one of them lands, and nobody knows which."""
    fee = deposit = 0
    for cost in costs:
        fee, deposit = max(fee, cost.fee), max(deposit, cost.deposit)
    return Cost(fee, deposit)
