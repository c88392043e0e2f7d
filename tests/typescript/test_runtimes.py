"""The promises that depend on the runtime (fetch, streams, timers, crypto), kept on every runtime npm can install."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.client.world import World
from tests.servers.processes import end, free_port, make_folder, remove_folder, spawn
from tests.typescript.package import ROOT, installed, run, tool
from tests.typescript.relays import WORKERD
from tests.waiting import until_sync

NAMES = [
    *("webhook", "lost_answer", "resumed_stream", "exact_amounts", "abort", "abort_stream", "time_out"),
    *("not_repeated", "create_account", "silent_about_secrets"),
]
CONFIG = """
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [(name = "worker.js", esModule = embed "worker.js")],
      compatibilityDate = "2026-10-01",
      globalOutbound = "net",
    )),
    (name = "net", network = (allow = ["public", "private", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:1", http = (), service = "main")],
);
"""


@pytest.fixture(scope="module")
def bundles(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("cannot run here: the runtimes are locked for Linux on x86-64")
    folder = tmp_path_factory.mktemp("bundles")
    for name in ("run.mjs", "worker.mjs"):
        out = folder / name.replace("worker.mjs", "worker.js")
        options = ["--bundle", "--format=esm", "--target=es2022", "--log-level=error", f"--outfile={out}"]
        run([tool(package, "esbuild"), f"test/scripts/{name}", *options], package)
    return folder


def node(version: int) -> Callable[[Path], list[str]]:
    return lambda modules: [str(modules / f"node{version}" / "bin" / "node"), "run.mjs"]


def bun(modules: Path) -> list[str]:
    return [str(modules / "@oven" / "bun-linux-x64" / "bin" / "bun"), "run.mjs"]


def deno(modules: Path) -> list[str]:
    return [str(modules / "@deno" / "linux-x64-glibc" / "deno"), "run", "--allow-net", "--allow-env", "run.mjs"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {"node22": node(22), "node24": node(24), "bun": bun, "deno": deno}


@pytest.mark.parametrize("runtime", COMMANDS)
def test_the_client_keeps_its_promises_on(runtime: str, bundles: Path, world: World):
    modules = installed(Path(__file__).parent / "runtimes") / "node_modules"
    command = COMMANDS[runtime](modules)
    os.chmod(command[0], 0o755)
    told = run([*command, json.dumps({"control": world.control, "names": NAMES})], bundles, DENO_NO_UPDATE_CHECK="1")
    assert json.loads(told.splitlines()[-1]) == dict.fromkeys(NAMES, "kept")


def test_the_client_keeps_its_promises_on_workerd(bundles: Path, world: World):
    workerd = installed(ROOT / "examples" / "worker-relay") / WORKERD
    (bundles / "config.capnp").write_text(CONFIG)
    port, folder = free_port(), make_folder("workerd")
    command = [str(workerd), "serve", "config.capnp", "--socket-addr", f"http=127.0.0.1:{port}"]
    child = spawn(command, folder / "log", cwd=bundles)
    try:

        def listens() -> bool:
            assert child.poll() is None, (folder / "log").read_text()
            try:
                httpx.get(f"http://127.0.0.1:{port}/")
            except httpx.TransportError:
                return False
            return True

        until_sync(listens, 20, what="workerd listening")
        asked = {"control": world.control, "names": NAMES}
        told = httpx.post(f"http://127.0.0.1:{port}/", json=asked, timeout=120).json()
        assert told == dict.fromkeys(NAMES, "kept")
    finally:
        end(child)
        remove_folder(folder)
