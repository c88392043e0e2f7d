"""A real KMS API on this machine: ministack in an environment of its own (it pins libraries that we have newer), and a
proxy before it that answers as AWS does when it denies, throttles or lets a token expire."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.environments import install
from tests.servers.processes import end, free_port, spawn
from tests.waiting import until_sync

ROOT = Path(__file__).parent.parent.parent
LOCK = Path(__file__).parent / "ministack.lock"
"""Every package with its hashes. To renew it: `uv pip compile --universal --generate-hashes` of ministack and
cryptography."""
_SIGNED = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kms/aws4_request, SignedHeaders=host, Signature=0"


def installed() -> Path:
    """Its program; installing takes half a minute, once."""
    return install(LOCK) / "bin/ministack"


class Ministack:
    region = "us-east-1"

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, operation: str, **asked: Any) -> dict[str, Any]:
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"TrentService.{operation}",
            "Authorization": _SIGNED,
        }
        request = urllib.request.Request(self.url, json.dumps(asked).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def make(self, spec: str, alias: str, usage: str = "SIGN_VERIFY") -> str:
        arn = str(self.ask("CreateKey", KeySpec=spec, KeyUsage=usage)["KeyMetadata"]["Arn"])
        self.ask("CreateAlias", AliasName=f"alias/{alias}", TargetKeyId=arn)
        return arn


def start(folder: Path, port: int) -> tuple[subprocess.Popen[bytes], Ministack]:
    """What it held when it was last ended gently is there again."""
    here = {"BIND_HOST": "127.0.0.1", "PORT": str(port), "GATEWAY_PORT": str(port)}
    kept = {"PERSIST_STATE": "1", "STATE_DIR": str(folder / "state")}
    child = spawn([str(installed())], folder / "log", env={**os.environ, **here, **kept})
    server = Ministack(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        try:
            return "Keys" in server.ask("ListKeys")
        except OSError:
            return False

    try:
        until_sync(answers, 60, what="ministack answers")
    except BaseException:
        end(child)
        raise
    return child, server


@contextmanager
def running(folder: Path) -> Iterator[Ministack]:
    child, server = start(folder, free_port())
    try:
        yield server
    finally:
        end(child)


class FaultProxy:
    """Passes requests on; `fail` makes it answer an error of AWS to those that `only` picks."""

    def __init__(self, behind: str) -> None:
        self._behind = behind.rpartition(":")[2]
        self.fault: tuple[int, str] | None = None
        self.asked: list[str] = []
        self.hang = False
        self.delay_s = 0.0
        self.owed = 0
        """Signatures that were asked for and not answered."""

    def fail(self, status: int, kind: str) -> None:
        self.fault = (status, kind)

    async def __aenter__(self) -> FaultProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = {k.lower(): v.strip() for k, _, v in (li.partition(":") for li in head.decode().splitlines())}
                body = await reader.readexactly(int(lines["content-length"]))
                self.asked.append(lines["x-amz-target"].rpartition(".")[2])
                if self.hang:
                    await asyncio.sleep(600)
                if self.fault is not None:
                    status, kind = self.fault
                    told = json.dumps({"__type": f"com.amazonaws.kms#{kind}", "message": "no"}).encode()
                    answer = f"HTTP/1.1 {status} X\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told
                else:
                    signs = self.asked[-1] == "Sign"
                    self.owed += signs
                    try:
                        await asyncio.sleep(self.delay_s / 2)
                        answer = await self._pass_on(head, body)
                        await asyncio.sleep(self.delay_s / 2)
                    finally:
                        self.owed -= signs
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _pass_on(self, head: bytes, body: bytes) -> bytes:
        back, forth = await asyncio.open_connection("127.0.0.1", int(self._behind))
        forth.write(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + body)
        try:
            answer = await back.read()
        finally:
            forth.close()
        if not answer:
            raise ConnectionResetError  # it was killed
        head, _, body = answer.partition(b"\r\n\r\n")
        kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join(kept) + b"\r\n\r\n" + body
