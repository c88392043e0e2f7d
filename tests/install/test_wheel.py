"""`pip install` of the wheel, once for each extra: what is there works, what is missing is named with its command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.install.wheels import UV, Environment, build_wheel, clean_environment, install, newer_pythons
from tests.servers.processes import free_port
from tests.waiting import until_sync
from txmanager.extras import EXTRAS, how_to_install

MODULES = {
    "": ["client", "cli", "core.models", "settings"],
    "server": ["api", "ledger.redis", "ledger.memory", "runtime.manager", "wiring", "programs.api", "programs.sweeper"],
    "near": ["chains.near.family", "chains.near.chain", "programs.worker"],
    "evm": ["chains.evm.family", "chains.evm.chain", "programs.worker", "programs.gateway"],
    "embedded": ["stack.parts"],
    "devnet": ["devnet.launch", "devnet.server", "chains.near.chain"],
    "archive": ["client"],
}
"""What each extra must be able to import, all of it in `txmanager`."""
SMALL = {"txmanager", "pydantic", "orjson", "httptools", "typer", "rich"}
CHAINS = '[networks.n]\nchain = "{chain}"\nrpc = ["http://127.0.0.1:1"]\n'


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def plain(wheel, tmp_path_factory) -> Environment:
    return install(wheel, "", tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def everything(wheel, tmp_path_factory) -> Environment:
    return install(wheel, "all", tmp_path_factory.mktemp("all"))


def test_the_wheel_has_one_top_level_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"txmanager"}


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_brings_what_its_modules_import(wheel, tmp_path, extra):
    env = install(wheel, extra, tmp_path)
    imports = "\n".join(f"import txmanager.{name}" for name in MODULES[extra])
    env.python(imports)
    brought = "\n".join(f"import {name}" for name in EXTRAS.get(extra, ()))
    env.python(brought or "pass")
    assert "Usage" in env.txmanager("--help")


def test_the_client_alone_is_light(plain):
    """Direct dependencies and what pydantic, typer and rich bring: nothing of a server, a chain or a database."""
    brought = plain.packages()
    assert brought >= SMALL
    heavy = {"starlette", "redis", "hiredis", "uvloop", "uvicorn", "pynacl", "coincurve", "eth-account", "sqlalchemy"}
    assert not brought & heavy
    assert len(brought) <= 22, sorted(brought)


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        (["up"], "txmanager[all]"),
        (["demo"], "txmanager[server]"),
        (["api"], "txmanager[server]"),
        (["keys", "list"], "txmanager[server]"),
        (["devnet", "near"], "txmanager[devnet]"),
    ],
)
def test_a_command_without_its_libraries_names_the_command_that_installs_them(plain, words, needs):
    said = plain.txmanager(*words, code=2)
    assert f"pip install '{needs}'" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("chain", ["near", "evm"])
def test_a_chain_without_its_libraries_names_its_extra(wheel, tmp_path, chain):
    env = install(wheel, "server", tmp_path)
    config = env.folder / "x.toml"
    config.write_text(CHAINS.format(chain=chain))
    said = env.txmanager("config", "check", "--config", str(config), code=2)
    assert "pip install 'txmanager[" in said
    assert chain in said.partition("pip install")[2]


def test_every_library_of_an_extra_has_its_sentence():
    for extra, modules in EXTRAS.items():
        for module in modules:
            sentence = how_to_install(f"{module}.deep")
            assert sentence is not None
            assert extra in sentence
    assert how_to_install("no_such_library") is None


def test_all_runs_the_stack_the_demo_the_doctor_and_a_bench_from_an_empty_folder(everything):
    assert "every promise held" in everything.txmanager("demo", "--accounts", "20")
    assert "final per second" in everything.txmanager("bench", "stack", "--transfers", "40")
    assert "make bench" in everything.txmanager("bench", code=2)
    with _up([everything.bin / "txmanager"], everything.folder) as log:
        assert "/v1/near/accounts" in log.read_text()
        assert "ok" in everything.txmanager("doctor").lower()


@pytest.mark.parametrize("python", newer_pythons() or [None], ids=lambda path: path and path.name)
def test_the_demo_holds_on_a_newer_python(wheel, tmp_path, python):
    if python is None:
        pytest.skip("cannot run here: no Python is newer than the one that runs the tests")
    env = install(wheel, "all", tmp_path, python)
    assert "every promise held" in env.txmanager("demo", "--accounts", "20")


@pytest.mark.skipif(not UV.with_name("uvx").exists(), reason="needs uvx, which comes with uv")
def test_uvx_reaches_the_curl_without_an_installation(wheel, tmp_path):
    with _up([UV.with_name("uvx"), "--from", f"{wheel}[all]", "txmanager"], tmp_path) as log:
        assert "curl -i" in log.read_text()


class _up:
    """`txmanager up` until it printed its curl; ended by Ctrl-C."""

    def __init__(self, program: list[Path | str], folder: Path) -> None:
        self._command = [*map(str, program), "up", "--port", str(free_port())]
        self._folder = folder
        self._log = folder / "up.log"

    def __enter__(self) -> Path:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=clean_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            until_sync(self._greeted, 180.0, what="txmanager up prints its curl")
        except BaseException:
            self._stop()
            raise
        return self._log

    def _greeted(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return "new_account_id" in self._log.read_text()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
