"""A real SoftHSM2 token in a folder of its own, with keys of both curves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so")
TOKEN, PIN = "relayers", "246810"

_MAKE = """
import sys, pkcs11
from pkcs11 import Attribute, KeyType, Mechanism
module, token, pin, *keys = sys.argv[1:]
with pkcs11.lib(module).get_token(token_label=token).open(user_pin=pin, rw=True) as session:
    for key in keys:
        curve, label = key.split("=")
        if curve == "ed25519":
            kind, params, how = KeyType.EC_EDWARDS, "06032b6570", Mechanism.EC_EDWARDS_KEY_PAIR_GEN
        else:
            kind, how = KeyType.EC, Mechanism.EC_KEY_PAIR_GEN
            params = {"secp256k1": "06052b8104000a", "p256": "06082a8648ce3d030107"}[curve]
        told = session.create_domain_parameters(kind, {Attribute.EC_PARAMS: bytes.fromhex(params)}, local=True)
        told.generate_keypair(mechanism=how, store=True, label=label)
"""


class SoftHsm:
    def __init__(self, folder: Path) -> None:
        found = [path for path in MODULES if Path(path).exists()]
        if not found or shutil.which("softhsm2-util") is None:
            pytest.skip("needs softhsm2 (apt install softhsm2)")
        self.module, self.folder = found[0], folder
        (folder / "tokens").mkdir()
        self.config = folder / "softhsm2.conf"
        self.config.write_text(
            f"directories.tokendir = {folder}/tokens\nobjectstore.backend = file\nlog.level = ERROR\n"
        )
        self._run("softhsm2-util", "--init-token", "--free", "--label", TOKEN, "--so-pin", "13579", "--pin", PIN)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SOFTHSM2_CONF": str(self.config)}

    def make(self, *keys: str) -> None:
        """`ed25519=label` or `secp256k1=label` each; the secret halves never leave the token."""
        self._run(sys.executable, "-c", _MAKE, self.module, TOKEN, PIN, *keys)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, env=self.environment, check=False, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()[-500:]
