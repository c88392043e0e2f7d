"""Each lock file of the JavaScript parts fits its package.json, by the word of the npm that is here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LOCKS = subprocess.run(
    ["git", "ls-files", "*package-lock.json"], cwd=ROOT, capture_output=True, text=True, check=False
).stdout.split()


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    words = ["npm", "ci", "--dry-run", "--ignore-scripts", "--no-audit", "--no-fund"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def copy(lock: str, folder: Path) -> Path:
    for name in ("package.json", "package-lock.json"):
        shutil.copy((ROOT / lock).parent / name, folder)
    return folder


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_is_in_sync(lock, tmp_path):
    told = check(copy(lock, tmp_path))
    assert told.returncode == 0, told.stderr


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
def test_a_lock_file_that_is_not_would_be_noticed(tmp_path):
    package = copy("bench/peers/package-lock.json", tmp_path) / "package.json"
    package.write_text(package.read_text().replace('"dependencies": {', '"dependencies": { "left-pad": "1.3.0",'))
    told = check(tmp_path)
    assert told.returncode != 0
    assert "left-pad" in told.stderr
