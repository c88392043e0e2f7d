"""Open charges whose intent never came to be, or ended while nobody corrected them: found, and put right.

A charge that is open for three append limits is looked at. If its record lives it is left alone, each time for as long
again as it is old. If its record ended it is corrected. If no record of that life names this budget, nobody can append
with it any more, and it is deleted; unless somebody charged it again since it was read.
"""

from __future__ import annotations

import structlog

from txmanager.core.budgets import SLOTS, OpenCharge, charge_of, corrections
from txmanager.core.ledger import TOMBSTONE_MS, Ledger

_PAGE = 200
_LONGEST_MS = 24 * 3600 * 1000


async def sweep_charges(ledger: Ledger) -> int:
    """How many were deleted or corrected."""
    rebuilt = await ledger.rebuild()
    if rebuilt:
        structlog.get_logger("sweeper").warning("budgets rebuilt from the records", places=rebuilt)
    swept = 0
    for slot in range(SLOTS):
        while charges := await ledger.due_charges(slot, _PAGE):
            swept += sum([await sweep_charge(ledger, charge) for charge in charges])
            if len(charges) < _PAGE:
                break
    return swept


async def sweep_charge(ledger: Ledger, charge: OpenCharge) -> bool:
    record = await ledger.read(charge.id)
    noted = charge_of(record.intent) if record is not None and record.life == charge.life else None
    if record is None or noted is None or charge.budget not in dict(noted.budgets):
        return bool(await ledger.uncharge(charge.life, {charge.budget: charge.turn}))
    if record.status.final:
        return bool(await ledger.correct([c for c in corrections(record) if c.budget == charge.budget]))
    age = await ledger.now_ms() - charge.born
    await ledger.look_later(charge, min(_LONGEST_MS, max(TOMBSTONE_MS, age)))
    return False
