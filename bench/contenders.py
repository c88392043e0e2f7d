"""Who takes part: how each is started, and where the peers are installed (`.cache/bench`, from their lock files)."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.processes import ROOT

CACHE = ROOT / ".cache" / "bench"
LOCKS = ROOT / "bench" / "peers"
PYTHON_PEERS = ("saq", "taskiq", "arq", "streaq", "rq", "naive")
PEERS = ("bullmq", *PYTHON_PEERS)
BARE = ("saq", "taskiq")
"""The fastest Python queues; they are drained a second time with a bare connection instead of aiohttp."""
BATCH_ONLY = ("rq",)
"""Peers whose workers only poll in seconds when their queue is empty: their latency is not measured."""

_VENV = CACHE / "venv"
_NODE = CACHE / "bullmq"


def install_peers() -> list[str]:
    """Install what is missing; answers the peers that can run here, and names the others."""
    ready = []
    for names, install in ((("bullmq",), _install_node), (PYTHON_PEERS, _install_python)):
        try:
            install()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {', '.join(names)}: cannot be installed ({error})", file=sys.stderr)
        else:
            ready += names
    return ready


def _install_python() -> None:
    python = _VENV / "bin" / "python"
    wanted = LOCKS / "requirements.txt"
    installed = _VENV / "installed.txt"
    if installed.exists() and installed.read_text() == wanted.read_text():
        return
    subprocess.run([sys.executable, "-m", "venv", _VENV], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
    subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
    shutil.copy(wanted, installed)


def _install_node() -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        raise FileNotFoundError("needs node and npm")
    installed = _NODE / "installed.json"
    wanted = LOCKS / "package-lock.json"
    _NODE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", ".npmrc", "bullmq_peer.mjs"):
        shutil.copy(LOCKS / name, _NODE / name)
    if not installed.exists() or installed.read_text() != wanted.read_text():
        subprocess.run(["npm", "ci", "--omit=optional", "--no-audit", "--no-fund"], cwd=_NODE, check=True)
        shutil.copy(wanted, installed)


def peer(
    name: str, mode: str, redis: str, sink: int, jobs: int, rate: float, http: str = "aiohttp", work: str = "whole"
) -> tuple[list[str], dict[str, str]]:
    """The command of a peer and its environment."""
    if name == "bullmq":
        command = ["node", str(_NODE / "bullmq_peer.mjs")]
    else:
        command = [str(_VENV / "bin" / "python"), "-m", f"bench.peers.{name}_peer"]
    command += [mode, "--redis", redis, "--sink", str(sink), "--jobs", str(jobs), "--rate", str(rate)]
    command += ["--http", http, "--work", work]
    return command, {**os.environ, "PYTHONPATH": str(ROOT)}


def ours(mode: str, redis: str, rpc: int, jobs: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "bench.ours", mode, "--redis", redis, "--rpc", str(rpc), "--jobs", str(jobs), *more]


def either(mode: str, redis: str, jobs: int, *more: str) -> list[str]:
    return [sys.executable, str(ROOT / "bench" / "either.py"), mode, "--redis", redis, "--jobs", str(jobs), *more]


def limit(name: str, redis: str, sink: int, jobs: int, work: str = "whole") -> list[str]:
    command = [sys.executable, "-m", "bench.limits", name]
    return [*command, "--redis", redis, "--sink", str(sink), "--jobs", str(jobs), "--work", work]


@contextlib.contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """The sources of another commit, to be measured in turn with these: its code, driven by its own `bench.ours`, or by
    `bench/either.py`."""
    with tempfile.TemporaryDirectory(prefix="bench-against-") as folder:
        command = ["git", "archive", revision, "txmanager", "bench"]
        packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        if packed.returncode != 0:
            raise SystemExit(f"--against: {packed.stderr.decode().strip() or 'no such commit'}")
        subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
        yield Path(folder)


def versions(peers: list[str]) -> dict[str, str]:
    """Installed versions, from the lock files' own names."""
    found = {}
    for line in (LOCKS / "requirements.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        if name.lower() in ("arq", "saq", "taskiq", "taskiq-redis", "streaq", "rq"):
            found[name.lower()] = version
    if "bullmq" in peers:
        manifest = (_NODE / "node_modules" / "bullmq" / "package.json").read_text()
        found["bullmq"] = manifest.split('"version": "')[1].split('"')[0]
        told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
        found["node"] = told.stdout.strip()
    return found


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
