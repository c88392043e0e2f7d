"""`docs/performance.md`: tables, plots as SVG, machine and versions. Says plainly which goals were missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Series

_BAR, _LEFT, _WIDE = 22, 150, 420


@dataclass(frozen=True)
class Goal:
    what: str
    must: str
    found: str
    met: bool


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def series_rows(all_series: Sequence[Series], ours: Series) -> list[list[str]]:
    rows = []
    for one in sorted(all_series, key=lambda s: -s.middle):
        if not one.samples:
            rows.append([one.name, f"did not finish: {one.failed}", "", "", "", ""])
            continue
        ratio = ours.middle / one.middle
        cpu = f"{one.more['cpu_us']:.0f}" if "cpu_us" in one.more else ""
        rows.append([one.name, f"{one.middle:,.0f}", one.spread, f"{ratio:.2f}x", cpu, str(one.violations)])
    return rows


def bars(path: Path, title: str, unit: str, values: Sequence[tuple[str, float]]) -> None:
    """A horizontal bar chart, readable on light and dark pages."""
    top = max((value for _, value in values), default=1.0) or 1.0
    height = 40 + _BAR * len(values)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE + 90} {height}" '
        'font-family="sans-serif">',
        f'<rect width="100%" height="100%" fill="#fff"/><text x="8" y="20" font-size="14">{title} ({unit})</text>',
    ]
    for row, (name, value) in enumerate(values):
        y, width = 32 + row * _BAR, _WIDE * value / top
        colour = "#1f6feb" if name.startswith("txmanager") else "#9aa4b2"
        out.append(f'<text x="{_LEFT - 6}" y="{y + 14}" font-size="12" text-anchor="end">{name}</text>')
        out.append(f'<rect x="{_LEFT}" y="{y + 2}" width="{width:.1f}" height="{_BAR - 6}" fill="{colour}"/>')
        out.append(f'<text x="{_LEFT + width + 5:.1f}" y="{y + 14}" font-size="12">{value:,.4g}</text>')
    path.write_text("\n".join([*out, "</svg>"]) + "\n")


def goals_table(goals: Sequence[Goal]) -> str:
    rows = [[g.what, g.must, g.found, "yes" if g.met else "**no**"] for g in goals]
    return table(["figure", "goal", "measured", "met"], rows)
