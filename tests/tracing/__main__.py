"""Draws docs/images/trace.svg from a real trace: an intent whose worker is killed after the send.

.venv/bin/python -m tests.tracing
"""

from __future__ import annotations

import secrets
from pathlib import Path
from xml.sax.saxutils import escape

from tests.api.stage import ACCOUNTS
from tests.devnet.process import Devnet
from tests.servers.server import DURABLE, Server
from tests.tracing.receiver import Receiver, Span
from tests.tracing.test_traces import STEPS, Caller, HookReceiver, start_traced, story

PICTURE = Path(__file__).parent.parent.parent / "docs/images/trace.svg"
COLOURS = {"api": "#4f6bed", "worker": "#2f9e6e", "webhooks": "#c2762b"}
ROW, LEFT, WIDTH, TOP = 30, 250, 620, 46
LEAST_PX = 3


def draw(spans: list[Span]) -> str:
    """A bar per span on one time line; colours tell the process."""
    first, last = min(s.began for s in spans), max(s.ended for s in spans)
    scale = WIDTH / (last - first)
    height = TOP + ROW * len(spans) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 110} {height}" font-size="13" '
        'font-family="system-ui, sans-serif">',
        f'<rect width="100%" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for n, (process, colour) in enumerate(COLOURS.items()):
        at = LEFT + n * 120
        lines.append(f'<rect x="{at}" y="14" width="12" height="12" rx="2" fill="{colour}"/>')
        lines.append(f'<text x="{at + 18}" y="25" fill="#444">{process}</text>')
    for n, span in enumerate(spans):
        y = TOP + ROW * n
        x, width = LEFT + (span.began - first) * scale, max(LEAST_PX, (span.ended - span.began) * scale)
        colour = COLOURS[span.service.rpartition("-")[2]]
        took = f"{(span.ended - span.began) / 1e6:,.0f} ms"
        lines.append(f'<text x="{16 if span is spans[0] else 34}" y="{y + 15}" fill="#222">{escape(span.name)}</text>')
        lines.append(f'<line x1="16" x2="{LEFT + WIDTH + 94}" y1="{y + 24}" y2="{y + 24}" stroke="#eee"/>')
        lines.append(f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="14" rx="2" fill="{colour}"/>')
        lines.append(f'<text x="{LEFT + WIDTH + 94}" y="{y + 15}" text-anchor="end" fill="#666">{took}</text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    hook = HookReceiver()
    with (
        Server(config=DURABLE) as redis,
        Receiver() as receiver,
        Devnet(block_ms=50, accounts=ACCOUNTS, keys=8) as devnet,
        start_traced(redis.url, devnet, receiver, hook) as stage,
    ):
        caller = Caller()
        spans = story(stage, devnet, receiver, caller, f"pay-{secrets.token_hex(4)}")
        seen = {span.name: span for span in reversed(spans)}
        shown = [span for span in spans if span.name not in STEPS or seen[span.name] is span]
        PICTURE.write_text(draw(shown))
    print(PICTURE)


if __name__ == "__main__":
    main()
