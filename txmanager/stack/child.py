"""One child process: started in its own session, ended by pid, never outliving the supervisor."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from txmanager.core.errors import Unavailable

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Linux: a supervisor that is killed takes its children along. Elsewhere a stop does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    def __init__(self, name: str, argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._argv = list(argv)
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process else None

    async def start(self, *, read_line: bool = False) -> str:
        """Start; with `read_line` wait for the first line it prints, which says that it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if read_line else log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        if not read_line:
            return ""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            raise Unavailable(f"{self.name} did not start: {self.last_words()}")
        return line.decode()

    def last_words(self) -> str:
        """The last line of its log, for a sentence that says what went wrong."""
        try:
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        return lines[-1] if lines else f"exit code {self.exit_code}, nothing in {self._log}"

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def stop(self, grace_s: float) -> None:
        """Ask it to end; insist when the grace time is over."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
