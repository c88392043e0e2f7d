"""The `pkcs11` provider: keys in an HSM, asked through one child process per module.

A child that does not answer in time is killed, and the next question starts another one. A PIN that was refused is not
tried again: tokens lock themselves after a few wrong ones.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from txmanager.core.errors import InvalidSettings, SignerAway, SignerFault, SignerRefused
from txmanager.core.values import value
from txmanager.signing.remote import PublicHalf, all_failed
from txmanager.signing.secret import Secret
from txmanager.signing.signer import Answer, SigningRequest
from txmanager.signing.sources import Curve

_log = structlog.get_logger("signer")
_LINE_LIMIT = 1 << 20


@value(frozen=True, slots=True)
class Pkcs11Options:
    module: str
    token: str
    pin: Callable[[], Secret]
    """Read at each login, so that a corrected PIN is found."""
    name: str = "pkcs11"
    timeout_s: float = 5.0
    command: tuple[str, ...] = (sys.executable, "-m", "txmanager.signing.pkcs11_child")


class Pkcs11Provider:
    def __init__(self, options: Pkcs11Options) -> None:
        self._options = options
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._refused: Secret | None = None

    async def describe(self, key: str) -> PublicHalf:
        answer = await self._ask({"do": "describe", "key": key})
        return PublicHalf(Curve(answer["curve"]), bytes.fromhex(answer["data"]))

    async def sign_many(self, key: str, curve: Curve, requests: Sequence[SigningRequest]) -> list[Answer]:
        digests = [request.digest.hex() for request in requests]
        try:
            answer = await self._ask({"do": "sign", "key": key, "curve": curve.value, "digests": digests})
            return [bytes.fromhex(one) for one in answer["signatures"]]
        except SignerFault as fault:
            return all_failed(fault, requests)
        except InvalidSettings as gone:  # the key was there at the start
            return all_failed(SignerRefused(str(gone)), requests)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def close(self) -> None:
        await self._end()

    # -- parts

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._turn:
            try:
                async with asyncio.timeout(self._options.timeout_s):
                    child = self._child or await self._start()
                    return await self._exchange(child, question)
            except TimeoutError:
                await self._end()
                raise SignerAway(f"{self._options.name}: the module did not answer and was killed") from None
            except asyncio.CancelledError:
                await self._end()  # its answer would be taken for the next one's
                raise

    async def _start(self) -> asyncio.subprocess.Process:
        options, pipe = self._options, asyncio.subprocess.PIPE
        pin = options.pin()
        if pin == self._refused:
            raise SignerRefused(f"{options.name}: the PIN was refused; it is tried again when it is another one")
        child = self._child = await asyncio.create_subprocess_exec(
            *options.command, stdin=pipe, stdout=pipe, limit=_LINE_LIMIT, start_new_session=True
        )
        login = {"module": options.module, "token": options.token, "pin": pin.reveal().decode()}
        try:
            await self._exchange(child, login)
        except SignerRefused:
            self._refused = pin
            raise
        _log.info("module opened", signer=options.name, pid=child.pid)
        return child

    async def _exchange(self, child: asyncio.subprocess.Process, question: dict[str, Any]) -> dict[str, Any]:
        assert child.stdin is not None
        assert child.stdout is not None
        name = self._options.name
        try:
            child.stdin.write(json.dumps(question).encode() + b"\n")
            await child.stdin.drain()
            line = await child.stdout.readline()
        except (OSError, RuntimeError):  # uvloop's word for a pipe that is closed already
            line = b""
        if not line.endswith(b"\n"):
            await self._end()
            raise SignerAway(f"{name}: the module's process ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" not in answer:
            return answer
        if answer["error"] == "settings" and not answer.get("over"):
            if "module" in question:
                await self._end()
            raise InvalidSettings(f"signers.{name}", answer["message"])
        await self._end()
        kind = SignerRefused if answer["error"] in ("pin", "refused") else SignerAway
        raise kind(f"{name}: {answer['message']}")

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            if child.returncode is None:
                child.kill()
            await child.wait()
