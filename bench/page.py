"""Puts results into the page. What it claims is computed here from the samples, never typed in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.figures import BATCHES, RTT_MS, WIDE
from bench.goals import WINDOW, Results, found, goals
from bench.report import bars, goals_table, series_rows, table

_HEAD = ["", "per second", "lowest to highest", "ours is", "processor time per job, us", "violations"]


def write_page(
    path: Path, results: Results, machine: Mapping[str, str], *, jobs: int, peer_jobs: int, repeats: int
) -> None:
    plots = path.parent / "performance"
    plots.mkdir(parents=True, exist_ok=True)
    parts = [
        _HEAD_TEXT,
        _drain(results, plots),
        _send(results),
        _network(results, plots),
        _latency(results, plots),
        _where(results),
        _accepting(results),
        _server(results),
        "\n## Goals\n\n" + goals_table(goals(results)),
        _small(results),
        _method(machine, jobs, peer_jobs, repeats),
    ]
    path.write_text("\n".join(part for part in parts if part))


_HEAD_TEXT = """# Performance

`txmanager bench` (`make bench`) writes this page. It compares txmanager with job queues that do the same work, then
checks our goals. Compare the ratios: absolute figures depend on the machine. [How it is
measured](#how-it-is-measured) describes the work and the machine. [comparison.md](comparison.md) compares txmanager
with other relayers.
"""


def _method(machine: Mapping[str, str], jobs: int, peer_jobs: int, repeats: int) -> str:
    given = f"{jobs:,} jobs" if jobs == peer_jobs else f"{jobs:,} jobs ({peer_jobs:,} for the other queues)"
    return f"""
## How it is measured

**The work.** Each contender processes {given} over 8 keys, first in, first out per key. A job builds and signs one
NEAR function call of about 200 bytes, posts it to a JSON-RPC sink in another process, looks its outcome up there, and
stores a result that can be read again.

**txmanager** runs its production worker, ledger and NEAR adapter, with write-ahead, tracking to finality and
retirement.

**The other queues** have one queue per key and run one job of it at a time. They post the way their users do: with
aiohttp, rq with `http.client`, BullMQ with Node's keep-alive agent. The two fastest Python queues are also shown with
a bare connection; no goal uses those rows.

**Samples.** The figures are medians of {repeats} interleaved repeats, with the lowest and highest. Every sample gets
its own server (AOF, everysec) and its own sink. All contenders use the embedded Valkey unless a row says otherwise.
"Violations" are nonces that reached the sink out of order. "Processor time" is the contender's own, without Redis and
the sink. With a delay it is higher for all contenders, because code runs slower after it was idle.

{table(["machine", ""], [[name, value] for name, value in machine.items()])}"""


def _drain(results: Results, plots: Path) -> str:
    ours = found(results, "drain", "txmanager")
    if ours is None:
        return ""
    group = results["drain"]
    shown = [one for name, one in group.items() if name != "limit: lua"]
    bars(plots / "drain.svg", "Drained", "jobs/s", [(s.name, s.middle) for s in sorted(shown, key=lambda s: -s.middle)])
    more = ours.more
    counted = [
        ["worker processor time", f"{more.get('cpu_us', 0):.0f} us"],
        ["Redis processor time", f"{more.get('redis_us', 0):.0f} us"],
        ["Redis round trips", f"{more.get('round_trips', 0):.3f}"],
        ["Redis scripts", f"{more.get('scripts', 0):.2f}"],
        ["Redis commands, inside scripts", f"{more.get('commands', 0):.1f}"],
        ["HTTP requests", f"{more.get('requests', 0) / max(1.0, more.get('jobs', 1.0)):.2f}"],
        ["HTTP connections in total", f"{more.get('connections', 0):.0f}"],
    ]
    return f"""## Draining a full queue

All jobs are queued first, then processed as fast as possible. The window of txmanager is {WIDE} here, and {WINDOW}
in the sections with a delay.

{table(_HEAD, series_rows(shown, ours))}
![drained](performance/drain.svg)

For comparison, calling our smallest script alone reaches {group["limit: lua"].middle:,.0f} calls a second.

What one intent costs while a full queue is drained:

{table(["", "per intent"], counted)}
With a full queue, many intents share each round trip, which is why this figure is far below one. A single request on
an idle lane needs three round trips of its own (accept, write ahead, settle), and waits for them;
[comparison.md](comparison.md) names that figure.
"""


def _send(results: Results) -> str:
    """What earlier pages compared with."""
    ours = found(results, "drain", "txmanager")
    if ours is None or "send" not in results:
        return ""
    rows = series_rows([ours, *results["send"].values()], ours)
    return f"""
### Without a look-up by the other queues

Earlier pages compared txmanager with queues whose jobs end after the POST. These are those lines: txmanager still looks
up every outcome.

{table(_HEAD, rows)}"""


def _network(results: Results, plots: Path) -> str:
    out = ""
    for part, title, what in (
        (
            "network",
            f"{RTT_MS:g} ms in the network",
            "A proxy delays every chunk by half of the round trip, in both directions.",
        ),
        ("handler", f"{RTT_MS:g} ms in the handler", "The sink waits before it answers a send."),
    ):
        ours = found(results, part, "txmanager")
        if ours is not None:
            group = list(results[part].values())
            ordered = sorted(group, key=lambda s: -s.middle)
            bars(plots / f"{part}.svg", title, "jobs/s", [(s.name, s.middle) for s in ordered])
            rows = series_rows(group, ours)
            out += f"\n## {title[0].upper()}{title[1:]}\n\n{what} Window {WINDOW}.\n\n{table(_HEAD, rows)}\n"
            out += f"![{part}](performance/{part}.svg)\n"
    if "few lanes" in results:
        rows = [[s.name, f"{s.middle:,.0f}", s.spread, f"{s.violations}"] for s in results["few lanes"].values()]
        what = "The network again, with few lanes: a window for each round trip is the most that a lane can send."
        out += f"\n{what}\n\n{table(['', 'per second', 'lowest to highest', 'violations'], rows)}"
    return out


def _latency(results: Results, plots: Path) -> str:
    if "p50" not in results:
        return ""
    rows = []
    for name, low in sorted(results["p50"].items(), key=lambda pair: pair[1].middle or 1e9):
        high, body = results["p99"][name], found(results, "body", name)
        rows.append(
            [name, f"{low.middle:.2f}", f"{high.middle:.2f}", high.spread, f"{body.middle:.2f}" if body else ""]
            if low.samples
            else [name, f"did not finish: {low.failed}", "", "", ""]
        )
    values = [(name, low.middle) for name, low in results["p50"].items() if low.samples]
    bars(plots / "latency.svg", "Latency at 200/s, p50", "ms", sorted(values, key=lambda pair: pair[1]))
    return f"""
## Latency at 200 jobs a second

Every contender is measured from the call that submits a job until a caller that waits for it holds the stored result.
The caller waits as the queue's own API offers it: saq `refresh`, BullMQ `waitUntilFinished`, streaq `result`, taskiq
`wait_result` and arq `result` (both poll, here every 5 ms). Producer and worker share one process. In the last column
the clock of the other queues stops at the end of the job's body, as on earlier pages: before the result is stored.

{table(["", "p50 ms", "p99 ms", "p99 of the repeats", "p50 ms, to the end of the body"], rows)}
![latency](performance/latency.svg)
"""


_STEPS = {
    "accepted": "accepted: `submit` answered",
    "written ahead": "woken up, signed and written ahead",
    "sent": "the node answered the send",
    "seen on chain": "looked up",
    "settled": "outcome stored",
    "told": "the waiting caller has it",
}


def _where(results: Results) -> str:
    if "where" not in results:
        return ""
    middle, slow = results["where"]["around the median"].more, results["where"]["slowest 1 %"].more
    rows = [[words, f"{middle[step]:.2f}", f"{slow[step]:.2f}"] for step, words in _STEPS.items()]
    rows.append(["together", f"{middle['ms']:.2f}", f"{slow['ms']:.2f}"])
    others = "others under way when it was submitted"
    rows.append([others, *(f"{one['others under way']:.1f}" for one in (middle, slow))])
    return f"""
Where the time of one request goes, by the spans of its trace, in ms (`python -m bench.where`; one run, everysec):

{table(["until", "around the median", "slowest 1 %"], rows)}
Requests arrive at random. Those that come close together share one process, and each step waits for the others'.
"""


def _accepting(results: Results) -> str:
    out = ""
    if "submit" in results:
        rows = [
            [name, f"{alone.middle:.2f}", alone.spread, f"{crowd.middle:,.0f}", crowd.spread]
            for name, alone in results["submit"].items()
            if (crowd := found(results, "callers", name)) is not None and alone.samples
        ]
        head = ["", "alone, p50 ms", "lowest to highest", "64 callers, per second", "lowest to highest"]
        what = "Each intent is on disk (`appendfsync always`) before `submit` returns."
        out += f"\n## Submit\n\n{what}\n\n{table(head, rows)}"
    if "accept" in results:
        rows = [[s.name, f"{s.middle:,.0f}", s.spread] for s in results["accept"].values()]
        shown = table(["", "per second", "lowest to highest"], rows)
        out += f"\n## HTTP accept\n\n`POST /v1/intents`, keep-alive, 64 connections.\n\n{shown}"
    return out


def _server(results: Results) -> str:
    rows = [
        [str(batch), one.name, *(f"{us:.0f}" for us in (one.middle, one.more["accept"], one.more["work"])), one.spread]
        for batch in BATCHES
        for one in results.get(f"server, {batch}", {}).values()
        if one.samples
    ]
    if not rows:
        return ""
    head = ["batch", "", "per intent, us", "of the last repeat: accept", "work", "lowest to highest"]
    what = "Processor time of Redis for one intent, from its acceptance to its end. A batch of this size is accepted"
    how = "for each of 8 lanes in one call, and worked off with a window of this size."
    return f"\n## What an intent costs Redis\n\n{what}\n{how}\n\n{table(head, rows)}"


def _small(results: Results) -> str:
    out = ""
    if "signers" in results:
        rows = [[s.name, f"{s.middle:,.0f}", s.spread, str(s.violations)] for s in results["signers"].values()]
        shown = table(["the key", "per second", "lowest to highest", "out of order"], rows)
        what = (
            "One lane with window 16; transactions are included immediately; 4,000 intents from acceptance to outcome."
        )
        out += f"\n## Keys in an HSM, a KMS or a signer process\n\n{what}\n\n{shown}"
    if "blocks" in results:
        rows = [
            [s.name, f"{s.middle:.2f}", f"{s.more.get('resigned', 0):.1%}", str(s.violations)]
            for s in results["blocks"].values()
        ]
        head = ["", "per second", "signed again", "first attempts out of order"]
        out += f"\n## A window on 600 ms blocks\n\nOne lane on the devnet.\n\n{table(head, rows)}"
    if "memory" in results:
        rows = [[s.name, f"{s.middle:,.0f} B"] for s in results["memory"].values()]
        what = "Without the event streams, whose length is limited. A tombstone expires after three minutes."
        out += f"\n## Redis memory per intent\n\n{what}\n\n{table(['', ''], rows)}"
    if "growth" in results:
        rows = [[s.name, f"{s.middle:.0f} us", f"{s.more.get('rss_mb', 0):.0f} MB"] for s in results["growth"].values()]
        what = "Processor time of worker and Redis for one more intent, after the worker has taken over all lanes."
        out += f"\n## Growth\n\n{what}\n\n{table(['', 'per intent', 'worker memory'], rows)}"
    if "million" in results:
        told = {name: series.middle for name, series in results["million"].items()}
        rows = [
            ["cost of an intent from a short queue", f"{told['short']:.0f} us"],
            [f"cost of an intent from a queue of {told['queued']:,.0f}", f"{told['long']:.0f} us"],
            ["worker memory after a tenth of them", f"{told['early_mb']:.0f} MB"],
            ["worker memory after all", f"{told['late_mb']:.0f} MB"],
        ]
        out += f"\n## A long queue\n\n{table(['', ''], rows)}"
    if (recovery := found(results, "recovery", "txmanager")) is not None:
        more = recovery.more
        rows = [
            ["in flight at the kill", f"{more['in_flight']:,.0f}"],
            ["until the first lane moved", f"{more['first_s']:.1f} s"],
            ["until every lane moved", f"{more['seconds']:.1f} s"],
            ["nonces out of order", f"{more['violations']:.0f}"],
        ]
        what = "A worker is killed with `kill -9`, and another one is started immediately. A lease lasts 10 s."
        out += f"\n## Recovery\n\n{what}\n\n{table(['', ''], rows)}"
    return out
