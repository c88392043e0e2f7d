"""What a run found is kept while it goes on, and published without touching what people wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.coverage import NEVER_STRIKE, UNREACHABLE, holes, table
from tests.sim.faults import LANES, STATES
from tests.sim.hunt import Catch
from tests.sim.plan import ALL
from tests.sim.results import join, publish_mutants, publish_run, save
from tests.sim.runner import Total

CELLS = [(kind, state) for kind in ALL if kind not in NEVER_STRIKE for state in (*STATES, *LANES)]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    blocks = "".join(
        f"<!-- {name}: written by the tool -->\nold\n<!-- /{name} -->\nkept\n" for name in ("run", "mutants")
    )
    page.write_text(f"before\n{blocks}after\n")
    return page


def _total(met: list[tuple[str, str]]) -> Total:
    total = Total(schedules=10, processor_s=0.5)
    for kind, state in met:
        total.faults[kind] += 1
        total.cells[kind, state] += 1
    return total


def test_a_cell_that_was_not_met_is_named_and_one_that_cannot_be_met_is_not() -> None:
    missed = ("kill", "held")
    total = _total([cell for cell in CELLS if cell != missed and cell not in UNREACHABLE])
    assert holes(total) == [missed]
    assert "never met: kill x held" in table(total)


def test_results_are_kept_with_their_seeds_and_cost(tmp_path: Path) -> None:
    save(tmp_path / "deep" / "run.json", _total(CELLS), first=40, seconds=2.0)
    told = json.loads((tmp_path / "deep" / "run.json").read_text())
    assert (told["first"], told["schedules"], told["processor_s"], told["never_met"]) == (40, 10, 0.5, [])
    assert told["faults"] == len(CELLS)


def test_parts_of_one_run_are_added_up_and_gaps_are_refused(tmp_path: Path) -> None:
    parts = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"]
    for path, first in zip(parts, (10, 0, 30), strict=True):
        save(path, _total(CELLS), first=first, seconds=2.0)
    joined = join(parts[:2])
    assert (joined.first, joined.total.schedules, joined.seconds) == (0, 20, 4.0)
    assert joined.total.cells == _total(CELLS + CELLS).cells
    with pytest.raises(SystemExit, match="seeds 20 to 29 are missing"):
        join(parts)


def test_publishing_replaces_its_own_block_and_nothing_else(page: Path) -> None:
    publish_run(_total(CELLS), 0, 1.0, page)
    publish_mutants([("it is wrong", Catch("a_bug", 7, 0.1, "broken")), ("worse", Catch("b", 5, 0.1, None))], 5, page)
    text = page.read_text()
    assert "| `a_bug` | it is wrong | 7 |" in text
    assert "| `b` | worse | **not caught** |" in text
    assert "seeds 0 to 9" in text
    assert "20.0 schedules per core-second" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.count("kept\n") == 2
    assert text.endswith("after\n")


def test_a_page_without_its_block_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing to replace\n")
    with pytest.raises(SystemExit, match="has no block"):
        publish_run(_total(CELLS), 0, 1.0, page)
    assert page.read_text() == "nothing to replace\n"
