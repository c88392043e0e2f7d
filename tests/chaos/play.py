"""`python -m tests.chaos.play '{...}'`: one scene in a process of its own; JSON lines tell what happens in it.

SIGTERM ends it at once, with everything it started; it still says what it had reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from tests.chaos.plan import SceneSpec
from tests.chaos.scene import Scene
from tests.servers.processes import make_folder, remove_folder
from txmanager.programs.process import configure_logs

_EVERY_S = 0.5
KEEP = "CHAOS_KEEP"
"""Names the folder where logs and journals of a scene with findings go; otherwise they go with the scene."""


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


async def main(spec: SceneSpec) -> int:
    folder = make_folder(f"chaos-{spec.name}")
    kept = False
    try:
        async with Scene(spec, folder) as scene:
            telling = asyncio.create_task(_tell(scene))
            try:
                result = await scene.play()
            finally:
                telling.cancel()
                _counts(scene)
        kept = bool(result["violations"])
        say(result=result)
        return 1 if kept else 0
    except asyncio.CancelledError:
        say(stopped=True)
        return 130
    except BaseException as error:
        kept = True
        say(broke=f"{type(error).__name__}: {error}")
        return 1
    finally:
        if kept and (keep := os.environ.get(KEEP)):
            shutil.copytree(folder, Path(keep) / f"{spec.name}-{spec.seed}", dirs_exist_ok=True)
        remove_folder(folder)


async def _tell(scene: Scene) -> None:
    while True:
        await asyncio.sleep(_EVERY_S)
        _counts(scene)


def _counts(scene: Scene) -> None:
    say(counts=scene.counts, accepted=len(scene.crowd.accepted))


def run(spec: SceneSpec) -> int:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(main(spec))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run that started us decides
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            return loop.run_until_complete(task)
    return 130


if __name__ == "__main__":
    configure_logs("error")  # on stderr: what is told goes to stdout
    sys.exit(run(SceneSpec(**json.loads(sys.argv[1]))))
