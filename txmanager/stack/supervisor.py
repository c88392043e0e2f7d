"""Starts the parts in order, waits until each is ready, watches them, and ends them in the reverse order.

A worker, API, sweeper, archiver, monitor or webhook deliverer that dies is started again: they are made to be killed. A
store or a network that dies ends the stack with the reason: its data should be looked at before anything goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from txmanager.core.errors import InvalidInput, Misconfigured, Unavailable
from txmanager.settings import ENVIRONMENT_PREFIX, ApiSettings, environment_of, key_variables, load
from txmanager.settings.variables import Program
from txmanager.stack.allocator import find_jemalloc, preloaded
from txmanager.stack.anvil import PHRASE, PHRASE_VARIABLE, anvil_answers, anvil_argv, anvil_config, find_anvil
from txmanager.stack.child import Child
from txmanager.stack.folder import DataFolder, config_text, write_private
from txmanager.stack.parts import check_port, devnet_argv, free_port, listens, readiness, start_devnet, valkey_argv

_READY_WITHIN_S = 60.0
_GRACE_S = 15.0
_RESTART_S = 0.5
_RESTART_AT_MOST_S = 10.0
_STORES = ("valkey", "devnet", "anvil")


@dataclass(frozen=True, slots=True)
class NearOptions:
    """A NEAR network of the user's own instead of the devnet: one that runs needs an account and its keys."""

    rpc: str
    network: str = "testnet"
    account: str | None = None
    keys: str | None = None


@dataclass(frozen=True, slots=True)
class StackOptions:
    data: Path = Path("data")
    port: int = 8080
    workers: int = 2
    keys: int = 4
    block_ms: float = 600.0
    lease_s: float = 5.0
    redis: str | None = None
    near: NearOptions | None = None
    config: Path | None = None
    evm: bool = False
    """Whether an anvil runs beside, with a pool of its own."""
    jemalloc: bool = True
    """Whether the embedded Valkey allocates by jemalloc, if this machine has it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Overrides of the configuration, for every program."""


class Stack:
    def __init__(self, options: StackOptions, say: Callable[[str], None]) -> None:
        self.options = options
        self.folder = DataFolder(options.data.resolve())
        self._say = say
        self._children: list[Child] = []
        self._locks: list[IO[str]] = []
        self.account = ""
        self.near_url = ""
        self.evm_url = ""
        self.gateway_url = ""
        self.config = self.folder.config
        self.url = f"http://127.0.0.1:{options.port}"

    @property
    def started(self) -> bool:
        return bool(self._children)

    def pid(self, name: str) -> int | None:
        return next((child.pid for child in self._children if child.name == name), None)

    # -- starting

    async def start(self) -> None:
        if self.options.config is None:
            check_port("127.0.0.1", self.options.port, "choose another with --port")
        self.folder.prepare()
        self._locks.append(self.folder.lock())
        self._locks.append(await self.folder.lock_parts())
        environment = dict(self.options.environment)
        if self.options.config is None:
            await self._embed()
            if self.options.evm:
                environment[PHRASE_VARIABLE] = PHRASE
        else:
            self.config = self.options.config.resolve()
            if self.options.redis is not None:
                environment["TXMANAGER__LEDGER__URL"] = self.options.redis
            self._adopt(load(self.config, {**os.environ, **environment}).api)
        environment["TXMANAGER_CONFIG"] = str(self.config)
        whole = {**os.environ, **environment}
        settings = load(self.config, whole)

        def for_program(program: Program) -> dict[str, str]:
            return environment_of(program, settings, whole)

        for n in range(1, self.options.workers + 1):
            name = f"worker-{n}"
            await self._program(name, "worker", for_program("worker") | {"TXMANAGER__WORKER__NAME": name})
        await self._program("api", "api", for_program("api"))
        await self._until_ready()
        # Nobody waits for these, and their start would slow the others' down.
        await self._program("sweeper", "sweeper", for_program("sweeper"))
        if settings.archive is not None:
            await self._program("archiver", "archiver", for_program("archiver"))
        if any(pool.webhooks for pool in settings.pools.values()):
            await self._program("webhooks", "webhooks", for_program("webhooks"))
        if any(network.chain == "evm" for network in settings.networks.values()):
            await self._program("monitor", "monitor", for_program("monitor"))
        if settings.gateway is not None:
            await self._program("gateway", "gateway", for_program("gateway"))

    def _adopt(self, api: ApiSettings) -> None:
        """Where a configuration of the user's own puts the API."""
        if api.port == 0:
            raise InvalidInput("api.port", "must be a fixed port here, not 0")
        check_port(api.host, api.port, "change api.port")
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(api.host, api.host)
        self.url = f"http://{host}:{api.port}"

    async def _embed(self) -> None:
        """Start what was not given from outside, and write the configuration that ties it together."""
        near = self.options.near
        if near is not None and (near.account is None or near.keys is None):
            raise Misconfigured(
                "--near-rpc needs an account of that network and its keys: add --near-account relayer.testnet and "
                "--near-keys file:PATH (or give --config)"
            )
        anvil = find_anvil() if self.options.evm else None
        valkey = asyncio.create_task(self._start_valkey())
        try:
            if near is not None:
                network, rpc_url, keys = near.network, self.folder.refer("near-rpc", near.rpc), near.keys
                self.account, self.near_url = near.account or "", near.rpc
            else:
                network, keys = "localnet", await self._start_devnet()
                rpc_url = json.dumps(self.near_url)
            ledger = await valkey
        finally:
            valkey.cancel()
            await asyncio.gather(valkey, return_exceptions=True)
        write_private(
            self.config,
            config_text(
                ledger=ledger,
                network=network,
                rpc_url=rpc_url,
                account=self.account,
                keys=keys or "",
                api_port=self.options.port,
                token=self.folder.token(),
                lease_s=self.options.lease_s,
                archive=self.folder.path / "archive.db",
            )
            + (await self._start_anvil(anvil) if anvil is not None else ""),
        )
        load(self.config, {})

    async def _start_valkey(self) -> str:
        if self.options.redis is not None:
            return f"url = {self.folder.refer('ledger-url', self.options.redis)}"
        port, password = free_port(), self.folder.ledger_password()
        argv = valkey_argv(self.folder.valkey_config(), self.folder.path / "valkey", port)
        jemalloc = await asyncio.to_thread(find_jemalloc, argv[0]) if self.options.jemalloc else None
        child = self._child("valkey", argv, self._without_secrets() | (preloaded(jemalloc) if jemalloc else {}))
        await child.start()
        await self._until(lambda: listens(port, password), child)
        self._say(f"Valkey on 127.0.0.1:{port}, data in {self.folder.path / 'valkey'}")
        if jemalloc:
            self._say(f"Valkey uses jemalloc ({jemalloc}); --no-jemalloc turns it off")
        secret = json.dumps(str(self.folder.ledger_password_file))
        return f'url = "redis://127.0.0.1:{port}/0"\npassword = {{ file = {secret} }}'

    async def _start_devnet(self) -> str:
        argv = devnet_argv(self.folder.path / "devnet", self.options.keys, self.options.block_ms)
        network = await start_devnet(self._child("devnet", argv))
        self.near_url = network["url"]
        account = network["accounts"][0]
        self.account = account["account_id"]
        self._say(f"NEAR devnet at {self.near_url}, relayer {self.account} with {len(account['keys'])} keys")
        if len(account["keys"]) != self.options.keys:
            self._say(f"--keys {self.options.keys} applies only to a new data folder; this one keeps its keys")
        return self.folder.write_keys(self.account, account["keys"])

    async def _start_anvil(self, program: str) -> str:
        port, keys = free_port(), self.options.keys
        argv = anvil_argv(program, self.folder.path / "anvil", port, keys, self.options.block_ms)
        child = self._child("anvil", argv)
        await child.start()
        await self._until(lambda: anvil_answers(port), child)
        self.evm_url = f"http://127.0.0.1:{port}"
        self._say(f"anvil at {self.evm_url}, {keys} addresses in the pool evm")
        gateway_port = free_port()
        self.gateway_url = f"http://127.0.0.1:{gateway_port}"
        return anvil_config(port, keys, gateway_port)

    async def _program(self, name: str, program: Program, environment: Mapping[str, str]) -> None:
        await self._child(name, [sys.executable, "-m", f"txmanager.programs.{program}"], environment).start()

    def _child(self, name: str, argv: list[str], environment: Mapping[str, str] | None = None) -> Child:
        environment = self._without_secrets() if environment is None else environment
        child = Child(name, argv, self.folder.log(name), environment, keep=[self._locks[-1].fileno()])
        self._children.append(child)
        return child

    def _without_secrets(self) -> dict[str, str]:
        """For stores and networks, which read neither keys nor settings."""
        near = self.options.near
        hidden = key_variables([near.keys] if near is not None and near.keys else [])
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return {name: value for name, value in kept.items() if not name.startswith(ENVIRONMENT_PREFIX)}

    async def _until_ready(self) -> None:
        why = "the API does not answer"

        def ready() -> bool:
            nonlocal why
            why = readiness(f"{self.url}/readyz")
            return not why

        try:
            await self._until(ready, *self._children)
        except Unavailable as error:
            raise Unavailable(f"{error} ({why})") from None

    async def _until(self, ready: Callable[[], bool], *children: Child) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _READY_WITHIN_S
        while not await asyncio.to_thread(ready):
            for child in children:
                if child.exit_code is not None:
                    raise Misconfigured(f"{child.name} did not start: {child.last_words()}")
            if loop.time() > until:
                logs = self.folder.path / "logs"
                raise Unavailable(f"not ready within {_READY_WITHIN_S:g} s; the logs are in {logs}")
            await asyncio.sleep(0.05)

    # -- running and stopping

    async def supervise(self) -> str:
        """Watch until a part that must not die does; answers which."""
        ends: asyncio.Queue[Child] = asyncio.Queue()

        async def watch(child: Child) -> None:
            pause = _RESTART_S
            loop = asyncio.get_running_loop()
            while True:
                began = loop.time()
                await child.wait()
                if child.name in _STORES:
                    await ends.put(child)
                    return
                if loop.time() - began > 30:
                    pause = _RESTART_S
                self._say(f"{child.name} {_in_words(child)}; starting it again in {pause:g} s")
                await asyncio.sleep(pause)
                await child.start()
                # What dies at once dies again: slower each time.
                pause = min(pause * 2, _RESTART_AT_MOST_S)

        watching = [asyncio.create_task(watch(child)) for child in self._children]
        try:
            child = await ends.get()
            return f"{child.name} ended: {child.last_words()}"
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def stop(self) -> None:
        """Programs first, so that they can still hand their lanes back; then network and store."""
        programs = [child for child in self._children if child.name not in _STORES]
        await asyncio.gather(*(child.stop(_GRACE_S) for child in programs))
        for child in reversed([child for child in self._children if child.name in _STORES]):
            await child.stop(_GRACE_S)
        for lock in self._locks:
            lock.close()

    def kill(self) -> None:
        """At once: what is in flight is recovered by the next start."""
        for child in self._children:
            child.kill()


def _in_words(child: Child) -> str:
    code = child.exit_code
    return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended: {child.last_words()}"
