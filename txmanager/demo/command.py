"""`txmanager demo`: the promises under load and a kill -9, checked on the chain; exit code 1 if one broke."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer


def demo(
    accounts: Annotated[int, typer.Option(min=10, max=100_000, help="Accounts to create.")] = 500,
    runs: Annotated[int, typer.Option(min=1, help="Run the demo this many times.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed that decides which requests are repeated.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Keep the data here.", show_default="a temporary folder")] = None,
    near_rpc: Annotated[str | None, typer.Option(help="URL of a NEAR node instead of the devnet.")] = None,
    near_network: Annotated[str, typer.Option(help="Network of that node.")] = "testnet",
    near_account: Annotated[str | None, typer.Option(help="Relayer account on that network; it pays.")] = None,
    near_keys: Annotated[str | None, typer.Option(help="Keys of that account: file:PATH or env:NAME.")] = None,
) -> None:
    """Create accounts from several processes with 30 % retries, kill a worker with `kill -9`, and count the results."""
    # Imported here: `--help` should not wait for the parts of a whole stack.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table

    from txmanager.demo import DemoOptions, Report, tell
    from txmanager.stack import NearOptions

    console = Console()
    near = None if near_rpc is None else NearOptions(near_rpc, near_network, near_account, near_keys)

    def run_once(number: int) -> Report:
        options = DemoOptions(accounts, accounts * 3 // 10, seed=seed + number, data=data, near=near)
        columns = (TextColumn("  answered"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("answered", total=accounts + options.duplicates)
            return asyncio.run(
                tell(
                    options,
                    lambda text: console.print(f"  {text}", highlight=False, soft_wrap=True),
                    lambda done, total: progress.update(task, completed=done),
                )
            )

    broken = 0
    for number in range(runs):
        report = run_once(number)
        table = Table(show_header=False, box=None, title=f"run {number + 1} of {runs}" if runs > 1 else None)
        for name, value in report.rows():
            table.add_row(name, value)
        console.print(table)
        wrong = list(report.broken())
        broken += bool(wrong)
        for sentence in wrong:
            console.print(f"BROKEN: {sentence}", style="red", highlight=False)
        if not wrong:
            console.print("every promise held", style="green")
    if runs > 1:
        console.print(f"{runs - broken} of {runs} runs kept every promise")
    if broken:
        raise typer.Exit(1)
