"""Real signers for this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.signing.ministack import Ministack, running
from tests.signing.softhsm import SoftHsm


@pytest.fixture(scope="session")
def softhsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    """A token with one key of each curve that we use, one of another, and two of one label."""
    hsm = SoftHsm(Path(tmp_path_factory.mktemp("softhsm")))
    hsm.make("ed25519=near-1", "secp256k1=evm-1", "p256=other", "secp256k1=twice", "secp256k1=twice")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", str(hsm.config))
        yield hsm


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ministack]:
    """A KMS with a key of each curve that we use, and one of another."""
    with running(Path(tmp_path_factory.mktemp("ministack"))) as server:
        server.make("ECC_NIST_EDWARDS25519", "near-1")
        for alias in ("evm-1", "moves"):
            server.make("ECC_SECG_P256K1", alias)
        server.make("ECC_NIST_P256", "p256")
        yield server
