"""`make chaos`: real servers and processes, real signals; every promise held against the chain. Writes
docs/reliability.md. Ctrl-C ends everything and prints what was reached."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import resource
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from tests.chaos import report
from tests.chaos.plan import scenes
from tests.chaos.play import KEEP
from tests.chaos.report import Played, Run
from tests.chaos.seats import ENVIRONMENT, ROOT

PAGE = ROOT / "docs" / "reliability.md"


class Stage:
    """Plays scenes, some at a time, each in a process of its own."""

    def __init__(self, run: Run, abreast: int) -> None:
        self.run = run
        self._places = asyncio.Semaphore(abreast)
        self._processes: list[asyncio.subprocess.Process] = []
        self._stopping = False

    async def play(self) -> None:
        telling = asyncio.create_task(self._tell())
        try:
            await asyncio.gather(*(self._one(scene) for scene in self.run.scenes))
        finally:
            telling.cancel()
            self._show(end="\n")

    def stop(self) -> None:
        self._stopping = True
        for process in self._processes:
            if process.returncode is None:
                process.terminate()

    async def _one(self, scene: Played) -> None:
        async with self._places:
            if self._stopping:
                return
            told = json.dumps(asdict(scene.spec))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.chaos.play",
                told,
                stdout=asyncio.subprocess.PIPE,
                cwd=ROOT,
                env={**ENVIRONMENT, **_kept()},
                start_new_session=True,  # Ctrl-C comes to us alone, and we end it
                limit=1 << 24,
            )
            self._processes.append(process)
            assert process.stdout is not None
            while line := await process.stdout.readline():
                self._hear(scene, json.loads(line))
            code = await process.wait()
            if scene.result is None and not scene.broke:
                scene.broke = "was stopped" if self._stopping else f"ended with {code} and without a result"

    @staticmethod
    def _hear(scene: Played, told: dict[str, object]) -> None:
        if "counts" in told:
            scene.counts.clear()
            scene.counts.update(told["counts"])  # type: ignore[call-overload]
            scene.accepted = int(told["accepted"])  # type: ignore[call-overload]
        elif "result" in told:
            scene.result = told["result"]  # type: ignore[assignment]
        elif "broke" in told:
            scene.broke = str(told["broke"])

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(1.0 if sys.stderr.isatty() else 15.0)
            self._show(end="" if sys.stderr.isatty() else "\n")

    def _show(self, end: str) -> None:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{clear}{report.progress(self.run)}", end=end, file=sys.stderr, flush=True)


def _kept() -> dict[str, str]:
    return {KEEP: os.environ[KEEP]} if KEEP in os.environ else {}


async def perform(run: Run, abreast: int) -> bool:
    """Whether it was played to the end."""
    stage = Stage(run, abreast)
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        stage.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    began, run.load_before = time.monotonic(), os.getloadavg()[0]
    await stage.play()
    run.took_s = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    run.processor_s = used.ru_utime + used.ru_stime
    return not stopped.is_set()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="replays the same plan (SEED=n)")
    parser.add_argument("--quick", action="store_true", help="every fault a few times, in three minutes (QUICK=1)")
    parser.add_argument("--scene", action="append", help="only this scene; may be repeated (SCENE=cluster)")
    parser.add_argument("--abreast", type=int, default=2, help="scenes at a time (default: 2)")
    parser.add_argument("--limit-s", type=float, help="strike for so long in a scene at most, and judge that")
    parser.add_argument("--keep", type=Path, help="where logs and journals of a scene with findings go")
    parser.add_argument("--write", type=Path, help="where the page goes (a full run: docs/reliability.md)")
    told = parser.parse_args()
    chosen = scenes(told.seed, quick=told.quick)
    names = [spec.name for spec in chosen]
    for name in told.scene or ():
        if name not in names:
            parser.error(f"--scene: there is no {name!r}; one of {', '.join(names)}")
    if told.keep is not None:
        os.environ[KEEP] = str(told.keep.resolve())
    if told.limit_s is not None:
        chosen = [replace(spec, limit_s=told.limit_s) for spec in chosen]
    run = Run(told.seed, told.quick, [Played(spec) for spec in chosen if not told.scene or spec.name in told.scene])
    more = [f"--abreast {told.abreast}"] if told.abreast != 2 else []
    more += [f"--limit-s {told.limit_s:g}"] if told.limit_s is not None else []
    run.command = f"make chaos SEED={told.seed}" + (f' ARGS="{" ".join(more)}"' if more else "")
    whole = asyncio.run(perform(run, told.abreast))
    for part in (report.goals(run), report.faults(run), report.promises(run)):
        print(part, end="\n\n")
    for words in run.shown:
        print(f"PROBLEM {words}")
    page = told.write or (PAGE if whole and not told.quick and not told.scene else None)
    if page is not None:
        page.write_text(report.page(run, datetime.datetime.now(datetime.UTC).date().isoformat()))
        print(f"wrote {page}")
    print(f"seed {run.seed}, {run.took_s:.0f} s, {run.processor_s:.0f} s of processor time")
    return 1 if run.problems or not whole else 0


if __name__ == "__main__":
    sys.exit(main())
