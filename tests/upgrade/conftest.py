"""The wheel of the release that this one runs beside."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

OLD = "b726aa9"
"""Release 0.1.0."""


@pytest.fixture(scope="session")
def old_release(tmp_path_factory) -> Path:
    """Where its wheel is unpacked, as pip does it; its dependencies are ours."""
    folder = tmp_path_factory.mktemp("release-0.1.0")
    packed = subprocess.run(["git", "archive", OLD], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip("cannot run here: the history does not reach back to release 0.1.0")
    source, built, installed = (folder / name for name in ("source", "built", "installed"))
    source.mkdir()
    subprocess.run(["tar", "-x"], cwd=source, input=packed.stdout, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(built), str(source)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = built.glob("txmanager-0.1.0-*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    return installed
