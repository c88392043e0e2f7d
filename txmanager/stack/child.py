"""One child process: started in its own session, ended by pid, never outliving the supervisor."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from txmanager.core.errors import Unavailable

_PR_SET_PDEATHSIG = 1


def _die_with(parent: int) -> Callable[[], None]:
    """Linux: a supervisor that is killed takes its children along. Elsewhere a stop does."""
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def before_exec() -> None:
        if prctl is None:
            return
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            # It died before we asked to be told.
            os._exit(1)

    return before_exec


class Child:
    """`environment` is all it gets. `keep` are file descriptors it inherits: a lock that it holds stays held while any
    child lives."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        keep: Sequence[int] = (),
    ) -> None:
        self.name = name
        self._argv = list(argv)
        self._log = log
        self._said_before = 0
        self._environment = dict(environment)
        self._keep = tuple(keep)
        self._process: asyncio.subprocess.Process | None = None
        self._spawning: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process else None

    async def start(self, *, read_line: bool = False) -> str:
        """Start; with `read_line` wait for the first line it prints, which says that it is ready."""
        # Not to be cancelled halfway: a process that nobody has the pid of cannot be stopped.
        self._spawning = asyncio.create_task(self._spawn(read_line))
        await asyncio.shield(self._spawning)
        if not read_line:
            return ""
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            raise Unavailable(f"{self.name} did not start: {self.last_words()}")
        return line.decode()

    async def _spawn(self, read_line: bool) -> None:
        with self._log.open("ab") as log:
            self._said_before = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if read_line else log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
                pass_fds=self._keep,
                preexec_fn=_die_with(os.getpid()),
            )

    def last_words(self) -> str:
        """The last line of its log since it was started, for a sentence that says what went wrong."""
        lines: list[str] = []
        try:
            with self._log.open("rb") as log:
                log.seek(self._said_before)
                lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        except OSError:
            pass
        if not lines:
            return f"it ended with exit code {self.exit_code} and wrote nothing to {self._log}"
        return lines[-1].removeprefix("txmanager: ")

    async def wait(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def stop(self, grace_s: float) -> None:
        """Ask it to end; insist when the grace time is over."""
        if self._spawning is not None:
            await asyncio.wait({self._spawning})
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
