"""A process that has loaded everything and forks on request: a real worker or API process within milliseconds.

A line on stdin asks for a child; lines on stdout tell its pid and, later, how it ended. When stdin closes, all of its
children are killed, so that nothing outlives the run.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

from tests.chaos import detours, victim
from txmanager.programs import api
from txmanager.programs.process import configure_logs
from txmanager.settings import load

_POLL_S = 0.02


def live(told: dict[str, Any]) -> int:
    """All that a child does."""
    configure_logs("info")
    main = victim.serve(told) if told["program"] == "worker" else api.serve(load(Path(told["config"])))
    detours.run(main, told["detours"])
    return 0


def bear(told: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(told["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for file, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(file, number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = live(told)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run decides who ends
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    waiting = b""
    while True:
        if select.select([0], [], [], _POLL_S)[0]:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                break
            *lines, waiting = (waiting + chunk).split(b"\n")
            for line in lines:
                told = json.loads(line)
                pid = bear(told)
                children.add(pid)
                print(json.dumps({"name": told["name"], "pid": pid}), flush=True)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            children.discard(pid)
            print(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}), flush=True)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
