"""Runs Spin: one scene with its switches in, states, time and the length of a counterexample out.

Everything Spin and gcc write goes to a temporary folder; the repository stays as it was.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DEPTH = 2_000_000
MEMORY_MB = 6_000
NEEDED = {"spin": "spin", "gcc": "gcc"}


class ModelError(Exception):
    """The model could not be run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Run:
    states: int
    seconds: float
    steps: int
    """How long the counterexample is; 0 when every state was visited and none is bad."""
    broken: str
    """The assertion that does not hold, in the model's words."""

    @property
    def holds(self) -> bool:
        return self.steps == 0


def missing() -> list[str]:
    return [package for program, package in NEEDED.items() if shutil.which(program) is None]


def _call(folder: Path, limit_s: float, *command: str) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise ModelError(f"{command[0]} was not done after {limit_s:g} s: is the machine busy?") from late
    if done.returncode != 0:
        raise ModelError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _checked(
    source: str, switches: Sequence[str], limit_s: float, *, shortest: bool = False, small: bool = False
) -> Iterator[tuple[Path, str]]:
    """The folder with a finished run, and what it said."""
    if lacks := missing():
        raise ModelError(f"needs {' and '.join(lacks)}: apt install {' '.join(lacks)}")
    with tempfile.TemporaryDirectory(prefix="txmanager-model-") as name:
        folder = Path(name)
        shutil.copy(HERE / source, folder / source)
        _call(folder, 60, "spin", "-a", *(f"-D{switch}" for switch in switches), source)
        # Breadth first finds a shortest counterexample; depth first and compressed visits millions of states.
        how = ("-DBFS",) if shortest else ("-DCOLLAPSE",)
        _call(
            folder,
            120,
            "gcc",
            "-O0" if shortest or small else "-O2",
            "-w",
            "-DSAFETY",
            f"-DMEMLIM={MEMORY_MB}",
            *how,
            "-o",
            "pan",
            "pan.c",
        )
        yield folder, _call(folder, limit_s, "./pan", f"-m{DEPTH}", "-w22", "-n")


def check(source: str, switches: Sequence[str], *, small: bool = False, limit_s: float = 900) -> Run:
    """Visit every state, or stop at the first bad one. What is `small` is not worth an optimising compiler."""
    began = time.monotonic()
    with _checked(source, switches, limit_s, small=small) as (_, said):
        states = re.search(r"([\d.e+]+) states, stored", said)
        errors = re.search(r"errors: (\d+)", said)
        cut_short = "max search depth too small" in said or "Search not completed" in said
        if states is None or errors is None or (cut_short and errors[1] == "0"):
            raise ModelError(f"the search is not complete:\n{said}")
        found = re.search(r"pan:1: (.+) \(at depth (\d+)\)", said)
        count = int(float(states[1]))
        if found is None:
            return Run(count, time.monotonic() - began, 0, "")
        return Run(count, time.monotonic() - began, int(found[2]), found[1])


def trail(source: str, switches: Sequence[str], *, limit_s: float = 300) -> str:
    """The steps of a shortest counterexample, as `spin -t -p` tells them."""
    with _checked(source, switches, limit_s, shortest=True) as (folder, said):
        if "errors: 0" in said:
            return "no counterexample: every state holds"
        defines = [f"-D{switch}" for switch in switches]
        told = subprocess.run(
            ["spin", "-t", "-p", "-g", *defines, source], cwd=folder, capture_output=True, text=True, check=False
        ).stdout
        return told
