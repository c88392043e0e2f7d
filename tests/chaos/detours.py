"""The network of one process: connections to known ports take a detour through that process's own fault proxies.

Servers name each other by their real addresses (Sentinel, MOVED, CLUSTER SLOTS); bending the connection itself, as a
firewall would, puts a proxy in front of every one of them without a word of the code under test being changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import uvloop


class DetourLoop(uvloop.Loop):
    ports: Mapping[int, int] = {}
    """From the real port to the proxy's."""

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **more: Any
    ) -> Any:
        return await super().create_connection(factory, host, self.ports.get(port, port), **more)


def run(main: Coroutine[Any, Any, None], ports: Mapping[str, int]) -> None:
    def loop() -> DetourLoop:
        made = DetourLoop()
        made.ports = {int(real): proxy for real, proxy in ports.items()}
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main)
