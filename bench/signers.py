"""Keys that are elsewhere, for `bench.ours --signer`: one that takes its time over every signature, as a KMS does, and
a real `txmanager signer` beside the worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import ROOT, Failed
from txmanager.signing.ed25519 import Ed25519Signer
from txmanager.signing.process import ProcessOptions, ProcessProvider
from txmanager.signing.remote import RemoteKey
from txmanager.signing.signer import Answer, Signer, SigningRequest
from txmanager.signing.sources import Curve

_DAY = str(10**36)


class SlowKey:
    """Every signature takes as long; all of a batch are made at the same time."""

    instant = False
    batches = 0
    """How often any of them was asked."""

    def __init__(self, key: Ed25519Signer, seconds: float) -> None:
        self._key, self._seconds = key, seconds
        self.public_key = key.public_key

    async def sign_many(self, requests: Sequence[SigningRequest]) -> list[Answer]:
        SlowKey.batches += 1

        async def one(request: SigningRequest) -> Answer:
            await asyncio.sleep(self._seconds)
            return self._key.sign(request.digest)

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def close(self) -> None:
        pass


def elsewhere(key: Ed25519Signer, how: str) -> Signer:
    """`memory`, `30ms`, or `unix:PATH` of a signer."""
    if how.startswith("unix:"):
        provider = ProcessProvider(ProcessOptions("box", how.removeprefix("unix:")))
        return RemoteKey(provider, "lane", Curve.ED25519, key.public_key)
    return key if how == "memory" else SlowKey(key, float(how.removesuffix("ms")) / 1000)


@contextlib.contextmanager
def signer_process(key: Ed25519Signer, account: str) -> Iterator[str]:
    """A `txmanager signer` with this key; answers how to reach it."""
    with TemporaryDirectory(prefix="bench-signer-") as folder:
        policy = f'{{ max_value = "1000", max_fee = "{_DAY}", max_per_day = "{_DAY}" }}'
        (Path(folder) / "signer.toml").write_text(
            f'[signer]\nlisten = "unix:{folder}/s"\nstate = "{folder}/state"\n'
            f'clients = {{ worker = {{ uid = {os.getuid()}, keys = ["lane"] }} }}\n'
            f'[signer.keys.lane]\nchain = "near"\naccount = {json.dumps(account)}\n'
            f'source = "env:BENCH_KEY"\npolicy = {policy}\n'
        )
        environment = {
            **os.environ,
            "TXMANAGER_CONFIG": f"{folder}/signer.toml",
            "BENCH_KEY": key.export().reveal().decode(),
        }
        command = [sys.executable, "-m", "txmanager", "signer"]
        subprocess.run([*command, "--init"], env=environment, cwd=ROOT, check=True, capture_output=True)
        with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as child:
            try:
                until = time.monotonic() + 30
                while not Path(folder, "s").exists():
                    if time.monotonic() > until or child.poll() is not None:
                        raise Failed("the signer did not start")
                    time.sleep(0.05)
                yield f"unix:{folder}/s"
            finally:
                child.terminate()
