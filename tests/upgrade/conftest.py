"""The sources of the release that this one runs beside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

OLD = "b726aa9"
"""Release 0.1.0."""


@pytest.fixture(scope="session")
def old_release(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("release-0.1.0")
    packed = subprocess.run(["git", "archive", OLD, "txmanager"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip("cannot run here: the history does not reach back to release 0.1.0")
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    return folder
