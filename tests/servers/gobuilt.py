"""Programs from the Go module proxy: the one on the PATH, else built once into .cache/.

`python -m tests.servers.gobuilt` gets all of them beforehand; the first test that needs one would wait for it.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = {
    # Later releases need a module that the proxy does not have.
    "geth": "github.com/ethereum/go-ethereum/cmd/geth@v1.16.7",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.19.5",
}


@functools.cache
def built(name: str) -> Path | None:
    """Where the program is; None where it is neither installed nor can be built."""
    if found := shutil.which(name):
        return Path(found)
    go = shutil.which("go")
    if go is None:
        return None
    folder = ROOT / ".cache" / f"{name}-{version(name)}"
    folder.mkdir(parents=True, exist_ok=True)
    binary = folder / name
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # another run may be building
        if not binary.exists():
            done = subprocess.run(
                [go, "install", PACKAGES[name]],
                env={**os.environ, "GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"},
                check=False,
                capture_output=True,
                timeout=1_500,
            )
            if done.returncode != 0:
                print(f"{name} could not be built: {done.stderr.decode()[-500:]}", file=sys.stderr)
                return None
    return binary


def version(name: str) -> str:
    return PACKAGES[name].partition("@")[2]


def missing(name: str) -> str:
    """Why a test that needs the program is skipped."""
    return f"needs {name} on the PATH, or go to build {version(name)}"


if __name__ == "__main__":
    found = {name: built(name) for name in PACKAGES}
    for name, binary in found.items():
        print(binary or missing(name))
    sys.exit(None in found.values())
