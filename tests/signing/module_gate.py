"""Stands between a worker and the process of its PKCS#11 module: `python -m tests.signing.module_gate FOLDER`.

It passes lines on, FOLDER/delay seconds late, and writes down how many signatures the module owes, and which process
it is. While FOLDER/away is there, no module starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(folder: Path) -> int:
    if (folder / "away").exists():
        return 1
    command = [sys.executable, "-m", "txmanager.signing.pkcs11_child"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    paper, draft = folder / f"module-{os.getpid()}", folder / f"draft-{os.getpid()}"

    def write(owed: int) -> None:
        draft.write_text(f"{child.pid} {owed}")
        draft.rename(paper)

    def delay() -> float:
        told = folder / "delay"
        return float(told.read_text()) if told.exists() else 0.0

    try:
        for line in sys.stdin.buffer:
            write(len(json.loads(line).get("digests", ())))
            time.sleep(delay() / 2)
            child.stdin.write(line)
            child.stdin.flush()
            answer = child.stdout.readline()
            time.sleep(delay() / 2)
            write(0)
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()
            if not answer:
                break
    finally:
        child.kill()
        child.wait()
        paper.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
