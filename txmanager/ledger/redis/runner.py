"""Runs scripts: EVALSHA with a NOSCRIPT fallback, one mapping of server errors, and the only retry there is.

A call that lost its connection is repeated for a short while, because every script may be run twice. What is still
unknown after that is raised as `Unavailable`: the caller's next try, with the same key, finds out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NoReturn

from txmanager.core.errors import MemoryFull, Misconfigured, Unavailable, Unconfirmed
from txmanager.core.values import value
from txmanager.ledger.redis.links import Link
from txmanager.ledger.redis.memory import usage
from txmanager.ledger.redis.scripts import Script, script
from txmanager.ledger.redis.wire import Command, ReplyError

Arg = str | bytes | int
_PAGE = 100
"""How many calls are joined at most: a script of a millisecond makes everybody else wait for one."""


@value(frozen=True, slots=True)
class Call:
    script: str
    keys: Sequence[str]
    args: Sequence[Arg] = ()


class Runner:
    def __init__(self, link: Link, patience_s: float = 1.0) -> None:
        self._link = link
        self._patience_s = patience_s
        self.scripts: dict[str, Script] = {}
        """Scripts of a test's own making, by name; empty in production."""
        self.round_trips = 0
        self._closed = False

    def close(self) -> None:
        """Nothing is repeated any more."""
        self._closed = True

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Arg] = (), *, durable: bool = False) -> Any:
        [reply] = await self.run_many([Call(name, keys, args)], durable=durable)
        return reply

    async def run_many(self, calls: Sequence[Call], *, durable: bool = False) -> list[Any]:
        """Scripts of any keys; those whose keys may travel together do."""
        if len(calls) == 1:
            return await self._patiently(calls, durable)
        groups: dict[int, list[int]] = {}
        for index, call in enumerate(calls):
            groups.setdefault(self._link.group(call.keys[0]), []).append(index)
        if len(groups) == 1:
            return await self._patiently(calls, durable)
        replies: list[Any] = [None] * len(calls)

        async def one(indexes: list[int]) -> None:
            for index, reply in zip(indexes, await self._patiently([calls[i] for i in indexes], durable), strict=True):
                replies[index] = reply

        await asyncio.gather(*(one(indexes) for indexes in groups.values()))
        return replies

    async def run_joined(
        self, calls: Sequence[Call], common: Sequence[Arg] = (), *, durable: bool = False
    ) -> list[Any]:
        """Calls of one script that takes many: those of one group become one, `common` in front of their arguments.

        Joined calls are atomic together, but nobody may rely on it: in a cluster few of them share a slot.
        """
        if len(calls) == 1:
            [one] = calls
            [[answer]] = await self.run_many([Call(one.script, one.keys, [*common, *one.args])], durable=durable)
            return [answer]
        groups: dict[int, list[list[int]]] = {}
        for index, call in enumerate(calls):
            pages = groups.setdefault(self._link.group(call.keys[0]), [[]])
            if len(pages[-1]) >= _PAGE:
                pages.append([])
            pages[-1].append(index)
        pages = [page for group in groups.values() for page in group]
        joined = [
            Call(
                calls[page[0]].script,
                [key for index in page for key in calls[index].keys],
                [*common, *(arg for index in page for arg in calls[index].args)],
            )
            for page in pages
        ]
        replies: list[Any] = [None] * len(calls)
        for page, answers in zip(pages, await self.run_many(joined, durable=durable), strict=True):
            for index, answer in zip(page, answers, strict=True):
                replies[index] = answer
        return replies

    async def plain(self, key: str, *commands: Command) -> list[Any]:
        """Ordinary commands on one slot."""
        return await self._checked(key, await self._retry(key, commands, durable=False))

    async def _patiently(self, calls: Sequence[Call], durable: bool) -> list[Any]:
        scripts = [self.scripts.get(call.script) or script(call.script) for call in calls]
        commands: list[Command] = [
            ("EVALSHA", s.sha, len(c.keys), *c.keys, *c.args) for s, c in zip(scripts, calls, strict=True)
        ]
        replies = await self._retry(calls[0].keys[0], commands, durable)
        missing = [i for i, r in enumerate(replies) if isinstance(r, ReplyError) and r.kind == "NOSCRIPT"]
        if missing:
            again: list[Command] = [("EVAL", scripts[i].text, *commands[i][2:]) for i in missing]
            for index, reply in zip(missing, await self._retry(calls[0].keys[0], again, durable), strict=True):
                replies[index] = reply
        return await self._checked(calls[0].keys[0], replies)

    async def _checked(self, key: str, replies: list[Any]) -> list[Any]:
        for reply in replies:
            if isinstance(reply, ReplyError):
                if reply.kind == "OOM":
                    [info] = await self._link.call(key, [("INFO", "memory")])
                    raise MemoryFull(*usage(info))
                _raise(reply)
        return replies

    async def _retry(self, key: str, commands: Sequence[Command], durable: bool) -> list[Any]:
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + self._patience_s, 0.02
        while True:
            try:
                self.round_trips += 1
                return await self._link.call(key, commands, durable=durable)
            except Unconfirmed:
                raise
            except Unavailable:
                if self._closed or loop.time() + pause_s >= until:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(0.2, pause_s * 2)


def _raise(error: ReplyError) -> NoReturn:
    """The one place where an error reply becomes an error of ours."""
    kind = error.kind
    if kind in ("NOAUTH", "WRONGPASS", "NOPERM"):
        raise Misconfigured(f"Redis refuses us: {error}. Check the user and password in ledger.url.")
    if kind == "NOREPLICAS":
        raise Unconfirmed(f"the ledger has too few replicas: {error}; retry the same key")
    if kind in ("MISCONF", "BUSY"):
        raise Unavailable(f"Redis does not write now: {error}")
    raise Misconfigured(f"Redis refused a script of ours: {error}")
