"""Child processes that end with the test run, also when the run itself is killed.

A reaper process holds the pids and folders; when the pipe from the test run breaks, it ends and removes what is left.
Nothing is ever stopped by name.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

_REAPER = r"""
import os, shutil, signal, sys
left = set()
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    (left.add if line[0] == "+" else left.discard)(line[1:].rstrip("\n"))
for pid in (name for name in left if name.isdigit()):
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
for folder in (name for name in left if not name.isdigit()):
    shutil.rmtree(folder, ignore_errors=True)
"""

_reaper: tuple[int, subprocess.Popen[str]] | None = None


def _tell_reaper(line: str) -> None:
    global _reaper
    if _reaper is None or _reaper[0] != os.getpid():
        _reaper = os.getpid(), subprocess.Popen([sys.executable, "-c", _REAPER], stdin=subprocess.PIPE, text=True)
    pipe = _reaper[1].stdin
    assert pipe is not None
    pipe.write(line + "\n")
    pipe.flush()


def spawn(
    command: list[str], log: Path, *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to `log`; it dies with the test run. A file that may not grow is an error to
    it, as a full disk is, and no signal: Python ignores SIGXFSZ, and its children inherit that."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            restore_signals=False,
        )
    _tell_reaper(f"+{child.pid}")
    return child


def end(child: subprocess.Popen[bytes], with_signal: signal.Signals = signal.SIGTERM, patience: float = 10.0) -> None:
    """Send the signal, wait; kill what does not listen."""
    if child.poll() is None:
        child.send_signal(with_signal)
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(patience)
    _tell_reaper(f"-{child.pid}")


def make_folder(what: str) -> Path:
    """A folder that goes with the test run, if it is not removed before."""
    folder = Path(tempfile.mkdtemp(prefix=f"txmanager-{what}-"))
    _tell_reaper(f"+{folder}")
    return folder


def remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _tell_reaper(f"-{folder}")


def free_port() -> int:
    """A port below the ephemeral range: no outgoing connection can steal it while its server is being restarted."""
    for _ in range(1000):
        port = random.randint(11000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 11000 and 32000")
