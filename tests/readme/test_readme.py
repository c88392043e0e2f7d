"""Every command of the README is run, and prints what the README shows; times, hashes, ports and the like aside.

`...` on a line of its own stands for any lines, `…` for any text within a line.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.evm.machines import installed
from tests.servers import free_port
from tests.servers.processes import end, make_folder, remove_folder, spawn
from tests.waiting import until_sync
from txmanager.stack.anvil import VARIABLE as ANVIL_VARIABLE

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
NOT_RUN = ("make test", "make bench", "make sim", "make chaos")
"""They take minutes, and continuous integration runs them itself."""


def commands() -> list[tuple[str, str]]:
    """Each command of the console blocks with the output below it, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
        found += zip(parts[::2], parts[1::2], strict=True)
    return [(command, output) for command, output in found if not command.startswith(NOT_RUN)]


SAME = [
    (r"txm_[\w-]+", "TOKEN"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"(?<=data in )\S+/data", "DATA"),
    (r"^date: .*$", "date: DATE"),
    (r"^content-length: \d+$", "content-length: N"),
    (r"worker-\d(, with \d+)?", "WORKER"),
    (r"\bed25519:(?!6E8sCci9)[1-9A-HJ-NP-Za-km-z]{40,}", "ed25519:KEY"),
    (r"at nonce \d+, can spend [\d.]+ NEAR", "at nonce N, can spend X NEAR"),
    (r"in \d+ ms: localnet, block \d+", "in N ms: localnet, block N"),
    (r"Valkey \d+\.\d+\.\d+", "Valkey V"),
    (r'"tx_hash":"[1-9A-HJ-NP-Za-km-z]+', '"tx_hash":"HASH'),
    (r"[ \t]+$", ""),
]


def plain(text: str) -> str:
    for pattern, word in SAME:
        text = re.sub(pattern, word, text.replace("\r", ""), flags=re.MULTILINE)
    return text


def as_pattern(shown: str) -> str:
    lines = []
    for line in plain(shown).splitlines():
        lines.append(r"(?:.*\n)*?" if line == "..." else re.escape(line).replace("…", r".*?") + r"\n")
    return "".join(lines)


def assert_shown(said: str, shown: str) -> None:
    said = plain(said.rstrip("\n") + "\n")
    assert re.fullmatch(as_pattern(shown), said), f"the README shows\n{plain(shown)}\nbut it printed\n{said}"


@dataclass(frozen=True)
class Clone:
    """A folder like that of a clone, with the stack of `make run` in it."""

    folder: Path
    port: int

    @property
    def said(self) -> str:
        return (self.folder / "make-run.log").read_text()


@contextmanager
def running(*options: str, **more: str) -> Iterator[Clone]:
    clone = Clone(make_folder("readme"), free_port())
    (clone.folder / "config").symlink_to(ROOT / "config")
    words = f"ARGS=--port {clone.port} --data {clone.folder / 'data'} {' '.join(options)}"
    child = spawn(make("run", words), clone.folder / "make-run.log", cwd=ROOT, env=environment() | more)
    try:

        def ready() -> bool:
            assert child.poll() is None, clone.said
            return "new_public_key" in clone.said

        until_sync(ready, 60, every=0.1, what="make run being ready")
        yield clone
    finally:
        # Ctrl-C reaches make and what it runs alike.
        for pid in subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True).stdout.split():  # noqa: PLW1510
            os.kill(int(pid), signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(60)
        end(child)
        remove_folder(clone.folder)


@pytest.fixture(scope="module")
def near() -> Iterator[Clone]:
    with running() as clone:
        yield clone


@pytest.fixture(scope="module")
def evm() -> Iterator[Clone]:
    anvil = installed() / "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
    with running("--evm", **{ANVIL_VARIABLE: str(anvil)}) as clone:
        yield clone


def make(target: str, *words: str) -> list[str]:
    """With the environment that the tests run in; nothing is installed."""
    return ["make", "--no-print-directory", "-o", f"{sys.prefix}/.installed", target, f"VENV={sys.prefix}", *words]


def environment() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TXMANAGER", "MAKE", "MFLAGS"))}
    return clean | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1"}


@pytest.mark.parametrize(("command", "output"), commands(), ids=[f"{c[:40]}" for c, _ in commands()])
def test_the_readme_shows_the_real_output(command, output, request):
    if command == "make demo":
        told = subprocess.run(make("demo"), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=170)  # noqa: PLW1510
        assert told.returncode == 0, told.stdout + told.stderr
        assert_shown(told.stdout, output)
        return
    clone: Clone = request.getfixturevalue("evm" if "/v1/evm/" in command else "near")
    if command == "make run":
        # only where the machine has the library
        assert_shown(re.sub(r"^ *Valkey uses jemalloc.*\n", "", clone.said, flags=re.MULTILINE), output)
        return
    assert command.startswith(("txmanager ", "curl ")), f"no test knows how to run {command!r}"
    line = command.replace("127.0.0.1:8080", f"127.0.0.1:{clone.port}")
    told = subprocess.run(
        ["bash", "-c", line],
        cwd=clone.folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert_shown(told.stdout, output)


def test_a_readme_that_shows_something_else_is_caught():
    assert_shown("a\nb\nc 12\n", "a\n...\nc …\n")
    with pytest.raises(AssertionError):
        assert_shown("a\nb\n", "a\nc\n")
    with pytest.raises(AssertionError):
        assert_shown("InvalidNonce 1\n", "InvalidNonce 0\n")


def prose(document: Path) -> str:
    """Its text without blocks of code."""
    return re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_every_file_the_documents_link_to_exists():
    for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose(document)):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_every_make_target_the_readme_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", README)) <= targets
