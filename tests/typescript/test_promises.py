"""The TypeScript client keeps every promise of the table: vitest hosts them on Node, the world is the real stack."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.client.promises import PROMISES
from tests.client.world import World
from tests.typescript.package import tool

ENVIRONMENT = {**os.environ, "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def kept(package: Path, world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What vitest says of each promise, by its name."""
    report = tmp_path_factory.mktemp("vitest") / "report.json"
    command = [tool(package, "vitest"), "run", "--reporter=json", f"--outputFile={report}"]
    done = subprocess.run(
        command,
        cwd=package,
        env={**ENVIRONMENT, "TXMANAGER_WORLD": world.control},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    assert "token-all" not in done.stdout + done.stderr
    [file] = json.loads(report.read_text())["testResults"]
    return {told["title"]: told for told in file["assertionResults"]}


def test_every_promise_is_kept_by_the_typescript_client(kept):
    assert list(kept) == list(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_typescript_keeps(name: str, kept):
    assert kept[name]["status"] == "passed", "\n".join(kept[name]["failureMessages"])
