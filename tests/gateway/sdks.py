"""Unmodified client libraries as processes: ethers 6 and viem 2 on node, cast, and web3.py in this process."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.senders import CHAIN_ID

ROOT = Path(__file__).parent.parent.parent
MANIFEST = Path(__file__).parent / "clients"


def installed() -> Path:
    """Installed once for each lock file, into .cache/."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, to install ethers, viem and cast")
    lock = (MANIFEST / "package-lock.json").read_bytes()
    folder = ROOT / ".cache" / f"clients-{hashlib.sha256(lock).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(MANIFEST / name, folder / name)
            done = subprocess.run(
                [npm, "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"],
                cwd=folder,
                check=False,
                capture_output=True,
                timeout=300,
            )
            assert done.returncode == 0, f"npm ci failed: {done.stderr.decode()[-500:]}"
            (folder / "complete").touch()
    for script in MANIFEST.glob("*.mjs"):
        shutil.copy(script, folder / script.name)
    return folder


def run(library: str, mode: str, url: str, key: str, many: int = 0, chain_id: int = CHAIN_ID) -> Any:
    """What `ethers.mjs` or `viem.mjs` prints."""
    command = ["node", f"{library}.mjs", mode, url, key, str(many)]
    environment = {**os.environ, "CHAIN_ID": str(chain_id)}
    done = subprocess.run(command, cwd=installed(), env=environment, check=False, capture_output=True, timeout=150)
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return json.loads(done.stdout)


def cast(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = installed() / "node_modules/@foundry-rs/cast-linux-amd64/bin/cast"
    return subprocess.run([str(program), *arguments], check=False, capture_output=True, text=True, timeout=120)
