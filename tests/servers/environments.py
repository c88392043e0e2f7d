"""Programs from PyPI in environments of their own, under .cache/: made once for each lock file."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def install(lock: Path) -> Path:
    """The environment with what the lock file names; the test is skipped where it cannot be installed."""
    folder = ROOT / ".cache" / f"{lock.stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    pip = [str(folder / "venv/bin/pip"), "install"]
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another run may be installing
        if not (folder / "complete").exists():
            for command in (
                [sys.executable, "-m", "venv", "--clear", str(folder / "venv")],
                [*pip, "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "-r", str(lock)],
            ):
                done = subprocess.run(command, check=False, capture_output=True, timeout=400)
                if done.returncode != 0:
                    pytest.skip(f"{lock.stem} cannot be installed: {done.stderr.decode()[-200:]}")
            (folder / "complete").touch()
    return folder / "venv"
