"""A real `txmanager signer` in a folder of its own: its keys, its configuration, and how to kill and restart it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.processes import end, spawn
from tests.waiting import until_sync
from txmanager.signing.process import ProcessOptions, ProcessProvider

ROOT = Path(__file__).parent.parent.parent
LIMITS: dict[str, Any] = {"max_value": str(10**24), "max_fee": str(10**24), "max_per_day": str(10**27)}


class SignerProgram:
    """`keys` are tables of `[signer.keys]`, each with its `secret` in place of a source."""

    def __init__(
        self,
        folder: Path,
        keys: Mapping[str, Mapping[str, Any]],
        *,
        clients: Mapping[str, Mapping[str, Any]] | None = None,
        environment: Mapping[str, str] | None = None,
        **signer: Any,
    ) -> None:
        self.folder, self.socket = folder, folder / "s"
        self.environment = {**os.environ, "TXMANAGER_CONFIG": str(folder / "signer.toml"), **(environment or {})}
        self.log = folder / "log"
        tables = {}
        for name, told in keys.items():
            table = {"policy": LIMITS, **told}
            if "secret" in table:
                variable = f"KEY_OF_{name.upper().replace('-', '_')}"
                self.environment[variable] = table.pop("secret")
                table["source"] = f"env:{variable}"
            tables[name] = table
        self.settings: dict[str, Any] = {
            "signer": {
                "listen": f"unix:{self.socket}",
                "state": str(folder / "state"),
                "clients": clients or {"worker": {"uid": os.getuid(), "keys": sorted(keys)}},
                "keys": tables,
                **{name: value for name, value in signer.items() if name != "signers"},
            },
            "signers": signer.get("signers", {}),
        }
        self._child: subprocess.Popen[bytes] | None = None

    def write(self) -> None:
        (self.folder / "signer.toml").write_text(
            "".join(f"{name} = {_toml(value)}\n" for name, value in self.settings.items())
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command itself, to its end."""
        self.write()
        command = [sys.executable, "-m", "txmanager", "signer", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=ROOT, check=False, capture_output=True, text=True, timeout=60
        )

    def start(self) -> None:
        self.write()
        lines = self._lines()
        self._child = spawn(
            [sys.executable, "-m", "txmanager.programs.signer"], self.log, env=self.environment, cwd=ROOT
        )
        until_sync(lambda: self._lines() > lines, 30, what="the signer listens")

    def _lines(self) -> int:
        return self.log.read_text().count("signer listens") if self.log.exists() else 0

    def kill(self) -> None:
        assert self._child is not None
        end(self._child, signal.SIGKILL)
        self._child = None

    def stop(self) -> None:
        if self._child is not None:
            end(self._child)
            self._child = None

    def provider(self, timeout_s: float = 10.0) -> ProcessProvider:
        return ProcessProvider(ProcessOptions("box", str(self.socket), timeout_s=timeout_s))


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    return json.dumps(value)


@contextmanager
def signer_program(folder: Path, keys: Mapping[str, Mapping[str, Any]], **more: Any) -> Iterator[SignerProgram]:
    program = SignerProgram(folder, keys, **more)
    done = program.run("--init")
    assert done.returncode == 0, done.stderr
    program.start()
    try:
        yield program
    finally:
        program.stop()
