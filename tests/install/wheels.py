"""The wheel as a user gets it, in environments of its own: nothing of the clone can be imported from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
UV = Path(sys.executable).parent / "uv"


def run(*command: object, cwd: Path | None = None, code: int = 0, timeout: float = 300) -> str:
    ended = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=clean_environment(),
        timeout=timeout,
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, f"{command} ended with {ended.returncode}\n{said[-3000:]}"
    return said


def clean_environment() -> dict[str, str]:
    mine = ("PYTHON", "VIRTUAL_ENV", "TXMANAGER")
    return {**{k: v for k, v in os.environ.items() if not k.startswith(mine)}, "NO_COLOR": "1", "COLUMNS": "200"}


def build_wheel(folder: Path) -> Path:
    """From a copy, so that nothing is written into the clone."""
    sources = folder / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "txmanager", sources / "txmanager", ignore=leave)
    if UV.exists():
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder / "dist", sources)
    else:
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder / "dist", sources)
    [wheel] = (folder / "dist").glob("txmanager-*.whl")
    return wheel


@dataclass(frozen=True)
class Environment:
    """An environment with one extra of the wheel, and an empty folder to run its commands in."""

    bin: Path
    folder: Path

    def python(self, code: str) -> str:
        return run(self.bin / "python", "-c", code, cwd=self.folder)

    def txmanager(self, *words: str, code: int = 0, timeout: float = 300) -> str:
        return run(self.bin / "txmanager", *words, cwd=self.folder, code=code, timeout=timeout)

    def packages(self) -> set[str]:
        code = "from importlib.metadata import distributions\nprint(*(d.name.lower() for d in distributions()))"
        return set(self.python(code).split())


def newer_pythons() -> list[Path]:
    """Interpreters above the one that runs the tests, one of each minor version: on the PATH, or pyenv's."""
    minors = range(sys.version_info.minor + 1, sys.version_info.minor + 6)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in minors:
        name = f"python3.{minor}"
        candidates = [shutil.which(name), *pyenv.glob(f"3.{minor}.*/bin/{name}")]
        works = (Path(one) for one in candidates if one and _runs(one))
        found += [one for one in [next(works, None)] if one]
    return found


def _runs(python: str | Path) -> bool:
    # A shim of pyenv is on the PATH for versions that are not switched on, too.
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


def install(wheel: Path, extra: str, folder: Path, python: Path | str = sys.executable) -> Environment:
    """The versions are those of the lock; which packages come along is what the wheel itself says."""
    env, empty = folder / "env", folder / "empty"
    empty.mkdir(parents=True)
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    pins = folder / "pins.txt"
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins.write_text("\n".join(line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#"))))
    if UV.exists():
        run(UV, "venv", "--quiet", "--python", python, env)
        run(UV, "pip", "install", "--quiet", "--python", env / "bin" / "python", "-c", pins, wanted)
    else:
        run(python, "-m", "venv", env)
        run(env / "bin" / "python", "-m", "pip", "install", "--quiet", "-c", pins, wanted)
    return Environment(env / "bin", empty)
