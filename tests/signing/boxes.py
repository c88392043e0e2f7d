"""Three real signers that can be killed with -9 and started again: SoftHSM2, a KMS, `txmanager signer`.

Workers reach each through something that delays questions and answers, and counts the signatures that it owes: whoever
wants to kill one at the worst moment waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from tests.servers.processes import end, free_port
from tests.signing import ministack
from tests.signing.program import LIMITS, SignerProgram
from tests.signing.softhsm import PIN, TOKEN, SoftHsm
from txmanager.signing import Ed25519Signer, Secret
from txmanager.signing.aws_kms import KmsOptions, KmsProvider
from txmanager.signing.evm import EvmSigner
from txmanager.signing.frames import frame, read_frame
from txmanager.signing.pkcs11 import Pkcs11Options, Pkcs11Provider
from txmanager.signing.process import ProcessOptions, ProcessProvider
from txmanager.signing.remote import Provider

AWS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
NEAR, EVM = "near-1", "evm-1"
"""The two keys that every box has."""


class Box(Protocol):
    @property
    def told(self) -> Mapping[str, Any]:
        """How any process reaches it, as JSON: see `provider_of`."""
        ...

    @property
    def owed(self) -> int: ...

    def slow(self, delay_s: float) -> None:
        """Half of it before the question arrives, half of it before the answer does."""
        ...

    def kill(self) -> None:
        """With -9. Nobody starts it before `revive`."""
        ...

    def revive(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


def provider_of(told: Mapping[str, Any]) -> Provider:
    match told["kind"]:
        case "softhsm":
            os.environ["SOFTHSM2_CONF"] = told["config"]
            gate = (sys.executable, "-m", "tests.signing.module_gate", told["folder"])
            return Pkcs11Provider(Pkcs11Options(told["module"], TOKEN, lambda: Secret(PIN), "hsm", 5.0, gate))
        case "kms":
            os.environ.update(AWS)
            return KmsProvider(KmsOptions("us-east-1", told["url"], name="kms", timeout_s=5.0))
    return ProcessProvider(ProcessOptions("box", told["path"], timeout_s=5.0))


def key_of(told: Mapping[str, Any], label: str) -> str:
    """What the provider calls the key."""
    return f"alias/{label}" if told["kind"] == "kms" else label


async def public_key_of(told: Mapping[str, Any], label: str) -> str:
    provider = provider_of(told)
    try:
        return (await provider.describe(key_of(told, label))).name
    finally:
        await provider.close()


def make_box(kind: str, folder: Path, account: str) -> Box:
    match kind:
        case "softhsm":
            return HsmBox(folder)
        case "kms":
            return KmsBox(folder)
    return ProgramBox(folder, account)


class HsmBox(Box):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.hsm = SoftHsm(folder)
        self.hsm.make(f"ed25519={NEAR}", f"secp256k1={EVM}")

    @property
    def told(self) -> Mapping[str, Any]:
        paths = {"config": str(self.hsm.config), "folder": str(self._folder)}
        return {"kind": "softhsm", "module": self.hsm.module, **paths}

    def _modules(self) -> list[tuple[int, int, int]]:
        """The gate, the module behind it, and what it owes."""
        found = []
        for paper in self._folder.glob("module-*"):
            with contextlib.suppress(OSError, ValueError):
                child, owed = paper.read_text().split()
                found.append((int(paper.name.partition("-")[2]), int(child), int(owed)))
        return found

    @property
    def owed(self) -> int:
        return sum(owed for _, _, owed in self._modules())

    def slow(self, delay_s: float) -> None:
        (self._folder / "delay").write_text(str(delay_s))

    def kill(self) -> None:
        (self._folder / "away").touch()
        for gate, child, _ in self._modules():
            _signal(gate, signal.SIGKILL)
            _signal(child, signal.SIGKILL)
            (self._folder / f"module-{gate}").unlink(missing_ok=True)

    def revive(self) -> None:
        (self._folder / "away").unlink(missing_ok=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()


class KmsBox(Box):
    """Its keys are on disk from the start on, so a killed one comes back with them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._child: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        child, server = await asyncio.to_thread(ministack.start, self._folder, self._port)
        server.make("ECC_NIST_EDWARDS25519", NEAR)
        server.make("ECC_SECG_P256K1", EVM)
        end(child)
        await asyncio.to_thread(self.revive)
        self._proxy = await ministack.FaultProxy(f"http://127.0.0.1:{self._port}").__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._proxy.__aexit__()
        self.kill()

    @property
    def told(self) -> Mapping[str, Any]:
        return {"kind": "kms", "url": self._proxy.url}

    @property
    def owed(self) -> int:
        return self._proxy.owed

    def slow(self, delay_s: float) -> None:
        self._proxy.delay_s = delay_s

    def kill(self) -> None:
        if self._child is not None:
            end(self._child, signal.SIGKILL)
            self._child = None

    def revive(self) -> None:
        self._child, _ = ministack.start(self._folder, self._port)


class ProgramBox(Box):
    """Workers reach it through a relay that counts."""

    def __init__(self, folder: Path, account: str, chain_id: int = 31337) -> None:
        near, evm = Ed25519Signer.generate(), os.urandom(32)
        self.public_keys = {NEAR: near.public_key, EVM: EvmSigner(Secret(evm)).address}
        keys = {
            NEAR: {"chain": "near", "account": account, "secret": near.export().reveal().decode(), "policy": LIMITS},
            EVM: {"chain": "evm", "chain_id": chain_id, "secret": evm.hex(), "policy": LIMITS},
        }
        self._program = SignerProgram(folder, keys)
        done = self._program.run("--init")
        assert done.returncode == 0, done.stderr
        self._door = folder / "door"
        self._sizes: dict[tuple[int, int], int] = {}
        self._delay_s = 0.0

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.revive)
        self._relay = await asyncio.start_unix_server(self._serve, self._door)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._relay.close()
        self._program.stop()

    @property
    def told(self) -> Mapping[str, Any]:
        return {"kind": "program", "path": str(self._door)}

    @property
    def owed(self) -> int:
        return sum(self._sizes.values())

    def slow(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def kill(self) -> None:
        self._program.kill()

    def revive(self) -> None:
        self._program.start()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, tasks = id(writer), list[asyncio.Task[None]]()

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, asks: bool) -> None:
            while (told := await read_frame(source)) is not None:
                if asks:
                    self._sizes[number, told["id"]] = len(told.get("requests", ()))
                await asyncio.sleep(self._delay_s / 2)
                if not asks:
                    self._sizes.pop((number, told["id"]), None)
                target.write(frame(told))
                await target.drain()

        try:
            back, forth = await asyncio.open_unix_connection(self._program.socket)
            tasks = [
                asyncio.create_task(pump(reader, forth, asks=True)),
                asyncio.create_task(pump(back, writer, asks=False)),
            ]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            forth.close()
        except OSError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._sizes = {key: size for key, size in self._sizes.items() if key[0] != number}
            writer.close()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
