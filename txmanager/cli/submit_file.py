"""`txmanager submit --file`: every line of a file is an intent, accepted once however often the command is run.

A line without a key gets one from its number and its content, unless its payload implies one, so that a second run
meets what the first one submitted.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import typer

from txmanager.client import Client, ClientError
from txmanager.client.calls import DERIVED
from txmanager.core.errors import InvalidInput, Unavailable

INTERRUPTED = 130


@dataclass
class FileSubmit:
    """Reads line by line; `count` has what became of them so far."""

    path: Path
    refused_path: Path
    kind: str | None = None
    pool: str | None = None
    count: Counter[str] = field(default_factory=Counter)
    read_bytes: int = 0
    _lines: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """Number and content of what waits for its answer, by its place among what was sent."""
    _refused: TextIO | None = None

    def run(self, client: Client) -> None:
        try:
            with self.path.open("rb") as file, _Progress(self.path.stat().st_size) as progress:
                for one in client.submit_many(self._intents(file), pool=self.pool):
                    number, intent = self._lines.pop(one.index)
                    self.count[one.result] += 1
                    if one.error is not None:
                        self._refuse(number, intent, one.error.problem)
                    progress.show(self.read_bytes, self.summary())
        except OSError as error:
            raise InvalidInput("--file", f"cannot read {self.path}: {error.strerror}") from None
        except ClientError as error:
            again = "run the same command again, it continues where it was"
            raise Unavailable(f"{error}. {self.summary()}; {again}") from None
        finally:
            if self._refused is not None:
                self._refused.close()
            else:
                self.refused_path.unlink(missing_ok=True)

    def summary(self) -> str:
        return ", ".join(f"{self.count[word]:,} {word}" for word in ("accepted", "replayed", "refused"))

    def _intents(self, file: Any) -> Iterator[dict[str, Any]]:
        sent = 0
        for number, line in enumerate(file, 1):
            self.read_bytes += len(line)
            if not line.strip():
                continue
            try:
                intent = self._intent(number, line)
            except ValueError as error:
                self.count["refused"] += 1
                self._refuse(
                    number, line.decode(errors="replace").strip(), {"code": "malformed_line", "detail": str(error)}
                )
                continue
            self._lines[sent] = number, intent
            sent += 1
            yield intent

    def _intent(self, number: int, line: bytes) -> dict[str, Any]:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("the line is no JSON object")
        if self.kind is not None:
            fields = {"kind": self.kind, "payload": fields}
        if fields.get("idempotency_key") is None and fields.get("kind") not in DERIVED:
            fields["idempotency_key"] = line_key(number, line)
        return fields

    def _refuse(self, number: int, intent: Any, problem: Any) -> None:
        if self._refused is None:
            self._refused = self.refused_path.open("w")
        self._refused.write(json.dumps({"line": number, "problem": problem, "intent": intent}) + "\n")
        self._refused.flush()


def line_key(number: int, line: bytes) -> str:
    """The same for the same line at the same place, in every run."""
    return f"line:{number}:{hashlib.sha256(line.strip()).hexdigest()[:32]}"


class _Progress:
    """A bar on a terminal; nothing where nobody looks."""

    def __init__(self, size: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        shown = sys.stderr.isatty() and size > 0
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.description}"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task("", total=size)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, read: int, words: str) -> None:
        self._bar.update(self._task, completed=read, description=words)


def submit_file(
    path: Path, url: str, token: str | None, kind: str | None, pool: str | None, refused: Path | None
) -> None:
    work = FileSubmit(path, refused or path.with_name(f"{path.name}.refused"), kind, pool)
    try:
        with Client(url, token=token, retry_for_s=60.0) as client:
            work.run(client)
    except ValueError as error:
        raise InvalidInput("--url or --token", str(error)) from None
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {work.summary()}; run the same command again, it continues where it was", err=True)
        raise typer.Exit(INTERRUPTED) from None
    typer.echo(work.summary())
    if work.count["refused"]:
        typer.echo(f"the refused lines and their problems are in {work.refused_path}", err=True)
        raise typer.Exit(1)
