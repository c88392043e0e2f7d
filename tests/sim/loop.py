"""An asyncio event loop on virtual time, and processes that can be killed or frozen at any await.

Nothing sleeps and nothing reads a real clock: time jumps to the next timer. What runs next depends on the seed alone,
so a schedule replays step by step.
"""

from __future__ import annotations

import asyncio
import asyncio.taskgroups
import contextlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any
from unittest.mock import patch

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Stuck(Exception):
    """The schedule can never go on: nothing is ready and no timer is set, or it runs round without end."""


class Life(Enum):
    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


class Process:
    """Everything that one operating-system process would run: its tasks and timers live, stop and die together."""

    def __init__(self, loop: VirtualLoop, name: str, died: Callable[[Process], None] | None = None) -> None:
        self.loop = loop
        self.name = name
        self.life = Life.RUNNING
        self.clock_offset_ms = 0
        self.backlog: deque[asyncio.Handle] = deque()
        self._died = died

    def spawn(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = copy_context()
        context.run(PROCESS.set, self)
        return self.loop.create_task(main, context=context)

    def kill(self) -> None:
        """From now on nothing of it runs: no handler, no `finally`."""
        if self.life is not Life.DEAD:
            self.life = Life.DEAD
            self.backlog.clear()
            if self._died is not None:
                self._died(self)

    def freeze(self) -> None:
        if self.life is Life.RUNNING:
            self.life = Life.FROZEN

    def thaw(self) -> None:
        """Go on where it stood: every timer that fell due meanwhile fires at once."""
        if self.life is Life.FROZEN:
            self.life = Life.RUNNING
            self.loop.requeue(self.backlog)

    async def gone(self) -> None:
        """Where a coroutine of a dead process ends."""
        await self.loop.create_future()


class _Call(asyncio.Handle):
    """A handle without what only debugging needs: half of a schedule's steps are nothing but these."""

    __slots__ = ()

    def __init__(self, call: Callable[..., Any], args: tuple[Any, ...], loop: VirtualLoop, context: Context) -> None:
        self._context, self._callback, self._args, self._loop = context, call, args, loop
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self, when: float, call: Callable[..., Any], args: tuple[Any, ...], loop: VirtualLoop, context: Context
    ) -> None:
        self._context, self._callback, self._args, self._loop = context, call, args, loop
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when, self._scheduled = when, True

    def cancel(self) -> None:
        """It stays in the heap and is passed over when its time has come."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, rng: random.Random, shuffle: float = 0.0) -> None:
        super().__init__()
        self._now = 0.0
        self._rng = rng
        self._shuffle = shuffle
        self._made: list[asyncio.Task[Any]] = []
        self._timers: list[tuple[float, int, _Timer]] = []
        """By time, then in the order of their making."""
        self._ordinal = 0
        self.over = False
        self.steps = 0
        self.max_steps = 400_000
        """Far above any schedule that makes progress; a loop that never waits ends here."""
        self.outside: Context = copy_context()
        """The context of the world itself: what runs here belongs to no process."""
        self.set_exception_handler(lambda _loop, _context: None)

    def time(self) -> float:
        return self._now

    def create_task(self, coro: Any, *, name: Any = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._made.append(task)
        return task

    def later(self, delay_s: float, call: Callable[..., Any], *args: Any) -> None:
        """Something the world does, whoever caused it and whether or not that one still lives."""
        self.call_later(delay_s, call, *args, context=self.outside)

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Call(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, copy_context() if context is None else context)
        self._ordinal = ordinal = self._ordinal + 1
        heapq.heappush(self._timers, (when, ordinal, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def requeue(self, handles: deque[asyncio.Handle]) -> None:
        self._ready.extend(handles)  # type: ignore[attr-defined]
        handles.clear()

    def _run_once(self) -> None:
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise Stuck("nothing is ready, and no timer is set")
            self._now = max(self._now, timers[0][0])
        now = self._now
        while timers and timers[0][0] <= now:
            ready.append(heapq.heappop(timers)[2])
        if self.steps > self.max_steps:
            raise Stuck(f"no end after {self.steps} steps: something repeats without waiting")
        if self._shuffle and len(ready) > 1 and self._rng.random() < self._shuffle:
            ready.rotate(-self._rng.randrange(len(ready)))
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and process.life is not Life.RUNNING:
                if process.life is Life.FROZEN:
                    process.backlog.append(handle)
                continue
            self.steps += 1
            handle._run()

    def discard(self) -> None:
        """End without running anything more: whatever hangs is closed where it hangs."""
        self.over = True
        self._ready.clear()  # type: ignore[attr-defined]
        self._timers.clear()
        for task in self._made:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException):  # a `finally` that awaits cannot finish here, and need not
                    task.get_coro().close()
        self._ready.clear()  # type: ignore[attr-defined]
        self._timers.clear()
        self._made.clear()
        self.close()

    def _write_to_self(self) -> None:
        """No other thread ever wakes this loop."""


class _InOrder(dict[Any, None]):
    """What asyncio keeps in a set of tasks is visited by address; in order of arrival it replays."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)


def ordered_task_groups() -> contextlib.AbstractContextManager[Any]:
    """A task group cancels its members in the order of their making, in each replay of a schedule."""
    return patch.object(asyncio.taskgroups, "set", _InOrder, create=True)


def order_task_groups() -> None:
    """The same for the rest of this process."""
    ordered_task_groups().__enter__()
