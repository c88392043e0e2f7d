"""The TypeScript client with its locked tools, installed into `.cache/` once for each lock file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CLIENT = ROOT / "clients" / "typescript"
_LEFT_OUT = shutil.ignore_patterns("node_modules", "dist", "*.tgz")


def npm() -> str:
    found = shutil.which("npm")
    if found is None:
        pytest.skip("needs npm")
    return found


def installed(source: Path = CLIENT) -> Path:
    """A copy of the folder with its locked packages. No package's script is run."""
    program = npm()
    lock = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = ROOT / ".cache" / f"ts-{source.name}-{lock}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another run may be installing
        shutil.copytree(source, folder, ignore=_LEFT_OUT, dirs_exist_ok=True)
        if not (folder / ".complete").exists():
            run([program, "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"], folder, timeout=300)
            (folder / ".complete").touch()
    return folder


def run(command: list[str], cwd: Path, *, timeout: float = 120, **environment: str) -> str:
    """Its output; a program that fails fails the test with what it said."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{(done.stdout + done.stderr)[-6000:]}"
    return done.stdout


def tool(folder: Path, name: str) -> str:
    return str(folder / "node_modules" / ".bin" / name)
