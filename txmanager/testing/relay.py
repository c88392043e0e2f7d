"""A whole txmanager in your test process, to test your own relay: memory ledger, NEAR devnet, worker, HTTP API.

    pytest_plugins = ["txmanager.testing.relay"]          # in conftest.py

    def test_my_relay_creates_an_account(txmanager):
        record = txmanager.client().create_account(txmanager.new_account_id(), txmanager.new_public_key(), wait_s=30)
        assert record.status == "done"

It is ready within a second, listens on 127.0.0.1 only, and forgets everything at the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from txmanager.api import build_app
from txmanager.api.server import ApiServer
from txmanager.client import Client
from txmanager.devnet.launch import Settings as DevnetSettings
from txmanager.devnet.launch import build, describe
from txmanager.devnet.server import Server
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.signing import Ed25519Signer
from txmanager.wiring import build_probes, build_services

_START_WITHIN_S = 30.0


class Relay:
    """`with Relay() as relay:` or the fixture `txmanager`. Everything runs in one thread of its own."""

    url: str
    """Of the HTTP API."""
    near_url: str
    """Of the NEAR node, for checks on the chain."""
    account: str
    """The relayer's account. New accounts are created below it."""

    def __init__(self, *, keys: int = 2, block_ms: float = 50.0, limits: dict[str, Any] | None = None) -> None:
        """`limits` are the token's, as in `[api.tokens.limits]` of the configuration."""
        self.token = f"txm_{secrets.token_urlsafe(24)}"
        self._keys = keys
        self._block_ms = block_ms
        self._limits = limits or {}
        self._failed: BaseException | None = None
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="txmanager", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(_START_WITHIN_S):
            raise TimeoutError(f"txmanager did not start within {_START_WITHIN_S:g} s")
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_START_WITHIN_S)

    def client(self) -> Client:
        return Client(self.url, token=self.token)

    def new_account_id(self) -> str:
        """A name that no test used before."""
        return f"t{secrets.token_hex(6)}.{self.account}"

    def new_public_key(self) -> str:
        return Ed25519Signer.generate().public_key

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failed = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        async with AsyncExitStack() as parts:
            folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="txmanager-")))
            devnet = build(DevnetSettings(block_ms=self._block_ms, accounts=1, keys=self._keys, delay_ms=1.0))
            await devnet.start(0)
            parts.push_async_callback(devnet.stop)
            settings = self._settings(devnet, folder)
            services, chains = build_services(settings)
            for chain in chains:
                parts.push_async_callback(chain.close)
            manager = await parts.enter_async_context(TxManager(MemoryLedger(), services))
            probes, close_probes = build_probes(settings)
            parts.push_async_callback(close_probes)
            server = ApiServer(build_app(manager, settings, probes=probes), settings.api)
            listening = asyncio.Event()
            serving = asyncio.create_task(server.run(listening.set))
            await listening.wait()
            self.url, self.near_url = f"http://127.0.0.1:{server.port}", devnet.url
            self._ready.set()
            await self._stop.wait()
            server.stop()
            await serving

    def _settings(self, devnet: Server, folder: Path) -> Settings:
        [user] = describe(devnet)["accounts"]
        self.account = user["account_id"]
        keys = folder / "keys.json"
        keys.touch(0o600)
        keys.write_text(json.dumps([{"account_id": self.account, **key} for key in user["keys"]]))
        token = {
            "name": "tests",
            "sha256": hashlib.sha256(self.token.encode()).hexdigest(),
            "scopes": ["submit", "read", "operate"],
            **({"limits": self._limits} if self._limits else {}),
        }
        return Settings.model_validate(
            {
                "ledger": {"url": "memory://"},
                "networks": {"local": {"chain": "near", "rpc": [{"url": devnet.url, "direct": True}]}},
                "pools": {"default": {"network": "local", "account": self.account, "keys": [f"file:{keys}"]}},
                "api": {"port": 0, "tokens": [token]},
            }
        )


@pytest.fixture(scope="session")
def txmanager() -> Iterator[Relay]:
    """One txmanager for the whole run. Use new account ids and new idempotency keys in each test."""
    with Relay() as relay:
        yield relay
