"""The table of faults by state: in which states of intents and lanes each fault struck, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.faults import LANES, STATES
from tests.sim.plan import ALL

if TYPE_CHECKING:
    from tests.sim.runner import Total

NEVER_STRIKE = ("rebaseline", "resolve_held")
"""Not faults: they say what an operator will do in the end."""

UNREACHABLE = {
    ("roll_back", "closed"): "a schedule with a roll-back closes no lane: nobody vouches for a store that forgets",
}
"""Cells that no schedule can meet, and why."""


def holes(total: Total) -> list[tuple[str, str]]:
    """Cells that could have been hit and were not."""
    return [
        (kind, state)
        for kind in ALL
        if kind not in NEVER_STRIKE
        for state in (*STATES, *LANES)
        if not total.cells[kind, state] and (kind, state) not in UNREACHABLE
    ]


def table(total: Total) -> str:
    columns = (*STATES, *LANES)
    lines = [f"{'fault':18}{'struck':>9}" + "".join(f"{c[:9]:>11}" for c in columns)]
    for kind in ALL:
        if kind in NEVER_STRIKE:
            continue
        cells = "".join(f"{total.cells[kind, column] or '.':>11}" for column in columns)
        lines.append(f"{kind:18}{total.faults[kind]:>9}{cells}")
    ends = ", ".join(f"{count} {end}" for end, count in sorted(total.ends.items(), key=lambda e: -e[1]))
    lines.append(
        f"{total.schedules} schedules, {sum(total.faults.values())} faults, {total.virtual_s / 3600:.1f} hours"
    )
    lines.append(f"intents: {ends}")
    if missed := holes(total):
        lines.append(f"never met: {', '.join(f'{kind} x {state}' for kind, state in missed)}")
    return "\n".join(lines)
