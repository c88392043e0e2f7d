"""`txmanager bench`: ours against its peers on this machine. It runs from a source checkout, which holds `bench/`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from txmanager.core.errors import Misconfigured

_ROOT = Path(__file__).resolve().parents[2]


def bench(
    jobs: Annotated[int, typer.Option(min=8, help="Jobs per sample.")] = 20_000,
    peer_jobs: Annotated[int, typer.Option(min=0, help="Jobs for each peer; 0 means as many as ours.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="How often each figure is taken.")] = 3,
    only: Annotated[
        str, typer.Option(help="Some of drain,network,latency,accept,memory,blocks,growth,million,recovery.")
    ] = "",
    server: Annotated[str, typer.Option(help="valkey (embedded, as `txmanager up` starts it) or redis.")] = "valkey",
    keep: Annotated[bool, typer.Option("--keep", help="Other parts stay as the last run measured them.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="2,000 jobs, once: whether it runs, not how fast.")] = False,
) -> None:
    """Measure against other queues on this machine; writes docs/performance.md. Takes minutes to an hour."""
    if not (_ROOT / "bench" / "__main__.py").is_file():
        raise Misconfigured("`txmanager bench` needs the project's source: run it from a checkout (make bench)")
    words = ["--jobs", str(jobs), "--peer-jobs", str(peer_jobs), "--repeats", str(repeats)]
    words += ["--server", server]
    words += (["--only", only] if only else []) + (["--quick"] if quick else []) + (["--keep"] if keep else [])
    raise typer.Exit(subprocess.run([sys.executable, "-m", "bench", *words], cwd=_ROOT, check=False).returncode)
