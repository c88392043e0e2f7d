"""jemalloc for the embedded server, if this machine has it: the build from PyPI has only the C library's allocator.

The library is preloaded, and only after a trial run of the same program accepted it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

LIBRARY = "libjemalloc.so.2"
FOLDERS = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib/*-linux-gnu")
"""Where Linux distributions put libraries."""


def find_jemalloc(program: str, folders: Iterable[str] = FOLDERS) -> str | None:
    """The path of a library that `program` can run with, or None."""
    if sys.platform != "linux":
        return None
    for folder in folders:
        for found in sorted(Path("/").glob(f"{folder.lstrip('/')}/{LIBRARY}")):
            if _accepts(program, str(found)):
                return str(found)
    return None


def preloaded(library: str) -> dict[str, str]:
    """What the environment of a program gets; a library that somebody else preloads stays."""
    return {"LD_PRELOAD": " ".join(filter(None, [library, os.environ.get("LD_PRELOAD", "")]))}


def _accepts(program: str, library: str) -> bool:
    """The loader only complains and goes on without the library, so its words count, not the exit code."""
    try:
        trial = subprocess.run(
            [program, "--version"],
            env={**os.environ, **preloaded(library)},
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == 0 and b"cannot be preloaded" not in trial.stderr
