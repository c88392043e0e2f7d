"""The TypeScript client keeps every promise of the table: vitest hosts them on Node, on each stack that it may meet."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.client.promises import PROMISES, RESIDENT
from tests.client.world import World
from tests.typescript.package import tool

ENVIRONMENT = {**os.environ, "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def kept(
    request: pytest.FixtureRequest, package: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What vitest says of each promise, by its name."""
    world: World = request.getfixturevalue(f"{request.param}_world")
    report = tmp_path_factory.mktemp("vitest") / "report.json"
    names = "|".join(RESIDENT if request.param == "resident" else PROMISES)
    command = [tool(package, "vitest"), "run", "--reporter=json", f"--outputFile={report}", "-t", f"^({names})$"]
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


@pytest.mark.parametrize("kept", ["python"], indirect=True)
def test_every_promise_is_kept_by_the_typescript_client(kept):
    assert list(kept) == list(PROMISES)


@pytest.mark.parametrize("kept", ["python"], indirect=True)
@pytest.mark.parametrize("name", PROMISES)
def test_typescript_keeps(kept, name: str):
    assert kept[name]["status"] == "passed", "\n".join(kept[name]["failureMessages"])


@pytest.mark.parametrize("kept", ["resident"], indirect=True)
@pytest.mark.parametrize("name", RESIDENT)
def test_typescript_keeps_with_resident_lanes(kept, name: str):
    assert kept[name]["status"] == "passed", "\n".join(kept[name]["failureMessages"])
