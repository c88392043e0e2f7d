"""`txmanager bench`: ours against its peers on this machine, from a source checkout, which holds `bench/`; or the speed
of a whole stack, which needs no checkout."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from txmanager.core.errors import InvalidInput, Misconfigured

_ROOT = Path(__file__).resolve().parents[2]


def bench(
    what: Annotated[
        str,
        typer.Argument(
            help="queues: compare with job queues. relayer: transfers on anvil until they are mined. "
            "gateway: compare with a bare proxy and a relay with a lock. stack: a whole stack, without a checkout."
        ),
    ] = "queues",
    transfers: Annotated[int, typer.Option(min=1, help="relayer, stack: number of transfers.")] = 400,
    kills: Annotated[int, typer.Option(min=0, help="relayer: number of times a worker or the API is killed.")] = 0,
    jobs: Annotated[int, typer.Option(min=8, help="Jobs per sample.")] = 20_000,
    peer_jobs: Annotated[int, typer.Option(min=0, help="Jobs for each other queue; 0 means the same number.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Number of repeats.")] = 3,
    only: Annotated[
        str, typer.Option(help="Some of drain,send,network,latency,accept,memory,blocks,growth,million,recovery.")
    ] = "",
    server: Annotated[str, typer.Option(help="valkey (embedded, as `txmanager up` starts it) or redis.")] = "valkey",
    against: Annotated[str, typer.Option(metavar="REV", help="Measure this commit, too, in turn with yours.")] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the last results of parts that are not run.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A short check with 2,000 jobs and one repeat.")] = False,
) -> None:
    """Run benchmarks on this machine. `queues` writes docs/performance.md and takes from minutes to an hour."""
    if what not in ("queues", "relayer", "gateway", "stack"):
        raise InvalidInput("WHAT", f"{what!r} is not queues, relayer, gateway or stack")
    if what == "stack":
        _stack(transfers)
        return
    if not (_ROOT / "bench" / "__main__.py").is_file():
        raise Misconfigured(
            f"`txmanager bench {what}` needs the project's source: run it from a checkout (make bench). "
            "`txmanager bench stack` runs anywhere"
        )
    if what == "relayer":
        _run("bench.relayer", "--transfers", str(transfers), "--kills", str(kills))
    if what == "gateway":
        _run("bench.gateway", "--repeats", str(repeats), *(["--quick"] if quick else []))
    words = ["--jobs", str(jobs), "--peer-jobs", str(peer_jobs), "--repeats", str(repeats)]
    words += ["--server", server, *(["--against", against] if against else [])]
    words += (["--only", only] if only else []) + (["--quick"] if quick else []) + (["--keep"] if keep else [])
    _run("bench", *words)


def _stack(transfers: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from txmanager.demo.measure import measure

    console = Console()
    speed = asyncio.run(measure(transfers, lambda text: console.print(f"  {text}", highlight=False, soft_wrap=True)))
    table = Table(show_header=False, box=None)
    for row in speed.rows():
        table.add_row(*row)
    console.print(table)


def _run(module: str, *words: str) -> NoReturn:
    raise typer.Exit(subprocess.run([sys.executable, "-m", module, *words], cwd=_ROOT, check=False).returncode)
