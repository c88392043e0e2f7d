"""A chain that is no part of txmanager: two wheels in a fresh environment, and the programs as an operator runs them.

Nothing here imports the clone's code but to make keys: what runs is what a user installs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers.processes import end, free_port, spawn
from tests.waiting import until_sync
from txmanager.signing.ed25519 import Ed25519Signer

ROOT = Path(__file__).parent.parent.parent
TOY = Path(__file__).parent
CONFIG = """
[ledger]
url = "{redis}"
prefix = "{prefix}"
durability = "none"
[worker]
lease_s = 1.0
[api]
port = {port}
[networks.toynet]
chain = "toy"
rpc = [{{ url = "{rpc}", direct = true }}]
[pools.main]
network = "toynet"
account = "relayer"
keys = ["file:{keys}"]
"""


def run(*command: object, cwd: Path | None = None) -> str:
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    return ended.stdout


@dataclass
class Installed:
    """An environment with the locked libraries, the wheel of txmanager and that of the chain."""

    bin: Path
    wheel: Path


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Installed:
    folder: Path = tmp_path_factory.mktemp("wheels")
    sources = folder / "txmanager"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        sources.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, sources)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "txmanager", sources / "txmanager", ignore=leave)
    shutil.copytree(ROOT / "consumers", sources / "consumers", ignore=leave)
    shutil.copytree(TOY, folder / "toychain", ignore=leave)
    uv, env, dist = Path(sys.executable).parent / "uv", folder / "env", folder / "dist"
    locked = ["--quiet", "--no-deps", "--require-hashes", "-r", ROOT / "deploy" / "requirements.lock"]
    if uv.exists():
        run(uv, "venv", "--quiet", "--python", sys.executable, env)
        install = [uv, "pip", "install", "--python", env / "bin" / "python"]
        for project in ("txmanager", "toychain"):
            run(uv, "build", "--quiet", "--wheel", "--out-dir", dist, folder / project)
    else:
        run(sys.executable, "-m", "venv", env)
        install = [env / "bin" / "python", "-m", "pip", "install"]
        for project in ("txmanager", "toychain"):
            run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", dist, folder / project)
    run(*install, *locked)
    run(*install, "--quiet", "--no-deps", *dist.glob("*.whl"))
    [wheel] = dist.glob("txmanager-*.whl")
    return Installed(env / "bin", wheel)


@dataclass
class Stage:
    """A node, and the programs of the environment around one ledger, in a folder without the clone."""

    installed: Installed
    folder: Path
    redis: str
    lanes: int = 1
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Stage:
        signers = [Ed25519Signer.generate() for _ in range(self.lanes)]
        keys = [{"account_id": "relayer", "private_key": s.export().reveal().decode()} for s in signers]
        (self.folder / "keys.json").write_text(json.dumps(keys))
        self._spawn("node", "python", "-m", "toychain.node", *(f"{s.public_key}=1000000" for s in signers))
        node_log = self.folder / "node.log"
        self.node = until_sync(lambda: node_log.read_text().partition("\n")[0], 30.0, what="the node prints its URL")
        port = free_port()
        self.config = self.folder / "toy.toml"
        told = {"redis": self.redis, "prefix": f"toy{port}", "port": port, "rpc": self.node}
        self.config.write_text(CONFIG.format(**told, keys=self.folder / "keys.json"))
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0)
        self.start("api", "api")
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children.values():
            end(child)
        self.http.close()

    def _spawn(self, name: str, program: str, *words: str) -> None:
        # No PYTHONPATH and another folder: the clone cannot be what is imported.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "TXMANAGER"))}
        command = [str(self.installed.bin / program), *words]
        self.children[name] = spawn(command, self.folder / f"{name}.log", cwd=self.folder, env=environment)

    def start(self, name: str, program: str) -> None:
        self._spawn(name, "txmanager", program, "--config", str(self.config))

    def command(self, *words: str) -> str:
        return run(self.installed.bin / "txmanager", *words, "--config", self.config, cwd=self.folder)

    def until_ready(self) -> None:
        def ready() -> bool:
            try:
                return len(self.http.get("/v1/lanes").json()["lanes"]) == self.lanes
            except httpx.TransportError:
                return False

        logs = {name: self.folder / f"{name}.log" for name in self.children}
        try:
            until_sync(ready, 120.0, every=0.1, what="the API answers and the lanes are there")
        except AssertionError as late:
            said = {name: log.read_text()[-1000:] for name, log in logs.items()}
            raise AssertionError(f"{late}: {said}") from None

    def ask(self, method: str, *params: object) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.node, json=asked, timeout=30.0).json()["result"]

    def pay(self, key: str, amount: int = 1, **more: object) -> httpx.Response:
        body = {"kind": "toy.transfer", "payload": {"account": "shop", "amount": amount}, **more}
        return self.http.post("/v1/intents", json=body, headers={"Idempotency-Key": key})

    def record(self, key: str) -> dict[str, Any]:
        return self.http.get(f"/v1/intents/{key}", params={"wait": 30}).json()


@pytest.fixture
def stage(installed, redis7, tmp_path) -> Iterator[Stage]:
    with Stage(installed, tmp_path, redis7.url) as running:
        running.start("worker", "worker")
        running.until_ready()
        yield running


def test_the_wheel_installs_txmanager_and_no_other_package(installed: Installed):
    names = {name.partition("/")[0] for name in zipfile.ZipFile(installed.wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"txmanager"}


def test_an_account_is_created_once_however_often_it_is_asked_for(stage: Stage):
    body = {"account": "alice", "amount": 7}
    first = stage.http.post("/v1/toy/accounts", json=body, params={"wait": 30})
    assert (first.status_code, first.json()["status"]) == (200, "done"), first.text
    assert first.json()["idempotency_key"] == "create:alice"
    again = stage.http.post("/v1/toy/accounts", json=body)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    other = stage.http.post("/v1/toy/accounts", json=body, headers={"Idempotency-Key": "mine"}, params={"wait": 30})
    assert (other.json()["status"], other.json()["error"]["code"]) == ("failed", "refused")
    assert stage.ask("toy_account", "alice")["balance"] == 7
    assert [one["ok"] for one in stage.ask("toy_transactions")] == [True, False]
    assert stage.http.post("/v1/toy/accounts", json={"account": "b!", "amount": 7}).status_code == 422


def test_every_surface_knows_the_chain_and_only_the_one_that_is_configured(stage: Stage):
    paths = stage.http.get("/openapi.json").json()["paths"]
    assert "/v1/toy/accounts" in paths
    assert not [path for path in paths if "near" in path or "evm" in path]
    assert stage.http.post("/v1/near/accounts", json={}).json()["code"] == "no_route"
    assert "toynet" in stage.http.get("/readyz").text
    assert "height 0" in stage.command("doctor")
    assert "next nonce 0  can spend 1000000 pebble" in stage.command("keys", "list")
    assert 'chain = "toy"' in stage.command("config", "show")


def test_one_lane_pays_in_the_order_of_acceptance(stage: Stage):
    stage.http.post("/v1/toy/accounts", json={"account": "shop", "amount": 0}, params={"wait": 30})
    for n in range(30):
        assert stage.pay(f"k{n}", amount=n).status_code == 202
    assert [stage.record(f"k{n}")["status"] for n in range(30)] == ["done"] * 30
    landed = [one["amount"] for one in stage.ask("toy_transactions") if not one["creates"]]
    assert landed == list(range(30))


def test_a_killed_worker_loses_nothing_and_pays_nothing_twice(installed, redis7, tmp_path):
    with Stage(installed, tmp_path, redis7.url, lanes=2) as stage:
        stage.start("first", "worker")
        stage.start("second", "worker")
        stage.until_ready()
        stage.http.post("/v1/toy/accounts", json={"account": "shop", "amount": 0}, params={"wait": 30})
        keys = [f"c{n}" for n in range(60)]
        with ThreadPoolExecutor(8) as crowd:
            accepted = [crowd.submit(stage.pay, key, n + 1) for n, key in enumerate(keys)]
            until_sync(lambda: len(stage.ask("toy_transactions")) > 5, 60.0, what="some payments landed")
            stage.children["first"].send_signal(signal.SIGKILL)
            assert {one.result().status_code for one in accepted} == {202}
        records = [stage.record(key) for key in keys]
        assert {record["status"] for record in records} == {"done"}
        landed = [one for one in stage.ask("toy_transactions") if not one["creates"] and one["receiver"] == "shop"]
        assert sorted(one["amount"] for one in landed) == list(range(1, 61))
        assert {one["hash"] for one in landed} == {record["tx_hash"] for record in records}
        assert [stage.pay(key, n + 1).json() for n, key in enumerate(keys)] == records
