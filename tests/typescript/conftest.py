"""The package with its tools, built once, and a world to use it in."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.conftest import devnet  # noqa: F401  (fixture)
from tests.client.resident import ResidentWorld
from tests.client.world import PythonWorld, World
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.servers.processes import make_folder, remove_folder
from tests.typescript.package import installed, npm, run


@pytest.fixture(scope="session")
def package() -> Path:
    return installed()


@pytest.fixture(scope="session")
def tarball(package: Path) -> Iterator[Path]:
    """What `npm publish` would upload. Packing builds it."""
    folder = make_folder("pack")
    run([npm(), "pack", "--silent", "--pack-destination", str(folder)], package)
    [packed] = folder.glob("*.tgz")
    yield packed
    remove_folder(folder)


@pytest.fixture
def empty() -> Iterator[Path]:
    folder = make_folder("project")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def python_world(redis7: HasUrl, devnet: Devnet) -> Iterator[World]:  # noqa: F811
    with PythonWorld(redis7.url, f"t{secrets.token_hex(6)}", devnet) as running:
        yield running


@pytest.fixture(scope="session")
def resident_world(devnet: Devnet) -> Iterator[World]:  # noqa: F811
    with ResidentWorld(devnet) as running:
        yield running


@pytest.fixture(scope="session")
def world(python_world: World) -> World:
    """Where one stack is enough: what is tested does not depend on it."""
    return python_world
