"""`[signers.NAME]` tables: a worker is built from them, every mistake is one sentence, no PIN shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.signing.softhsm import PIN, TOKEN, SoftHsm
from txmanager.cli.doctor import keys as doctor_keys
from txmanager.core.errors import InvalidSettings, SignerAway
from txmanager.settings import load
from txmanager.signing.pkcs11 import Pkcs11Provider
from txmanager.wiring import build_services

pytest.importorskip("pkcs11", reason="needs txmanager[pkcs11]")


def configuration(hsm: SoftHsm, keys: str, signer: str = "") -> str:
    return f"""
[networks.anvil]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "http://127.0.0.1:1" }}]
[networks.localnet]
chain = "near"
rpc = [{{ url = "http://127.0.0.1:1" }}]
[signers.hsm]
provider = "pkcs11"
module = "{hsm.module}"
token = "{TOKEN}"
pin = {{ env = "HSM_PIN" }}
timeout_s = 30
{signer}
[pools.evm]
network = "anvil"
keys = [{keys}]
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HSM_PIN", PIN)

    def write(text: str) -> Path:
        path = tmp_path / "txmanager.toml"
        path.write_text(text)
        return path

    return write


async def test_a_worker_is_built_with_keys_of_an_hsm_and_they_sign(softhsm: SoftHsm, write) -> None:
    near = '[pools.near]\nnetwork = "localnet"\naccount = "relayer.near"\nkeys = ["hsm:near-1"]\n'
    settings = load(write(configuration(softhsm, '"hsm:evm-1"') + near))
    services, chains = build_services(settings)
    assert sorted(lane.partition(":")[0] for lane in services) == ["evm", "near"]
    for lane, service in services.items():
        assert not service.chain.instant(lane)
        await service.chain.trial(lane)
    for chain in chains:
        await chain.close()


def test_a_pinned_key_must_be_the_signers(softhsm: SoftHsm, write) -> None:
    path = write(configuration(softhsm, '{ source = "hsm:evm-1", public_key = "0x' + "11" * 20 + '" }'))
    with pytest.raises(InvalidSettings, match=r"signers\.hsm: key 'evm-1' is 0x.* is pinned"):
        build_services(load(path))


@pytest.mark.parametrize(
    ("keys", "signer", "says"),
    [
        ('"hms:evm-1"', "", "or the name of a [signers.NAME], never the key itself"),
        ('"hsm:nowhere"', "", "the token has no private key 'nowhere'"),
        ('"hsm:near-1"', "", "is of ed25519, and this chain needs secp256k1"),
        ('"hsm:evm-1"', "tokken = 1", "did you mean 'token'?"),
        ('{ sauce = "hsm:evm-1" }', "", "a pinned key looks like"),
        ('"hsm:evm-1"', '[signers.env]\nprovider = "aws-kms"\nregion = "x"', "is the name of a key source"),
    ],
)
def test_a_mistake_is_one_sentence(softhsm: SoftHsm, write, keys: str, signer: str, says: str) -> None:
    path = write(configuration(softhsm, keys, signer))
    with pytest.raises(InvalidSettings) as caught:
        build_services(load(path))
    assert says in str(caught.value)
    assert PIN not in str(caught.value)


async def test_doctor_makes_a_trial_signature_with_every_key(softhsm: SoftHsm, write, monkeypatch) -> None:
    """The nodes are away; whether the key signs is told all the same."""
    settings = load(write(configuration(softhsm, '"hsm:evm-1"')))
    asked = []
    plain = Pkcs11Provider.sign_many

    async def sign_many(self, key, curve, requests):
        asked.extend(requests)
        return await plain(self, key, curve, requests)

    monkeypatch.setattr(Pkcs11Provider, "sign_many", sign_many)
    [found] = await doctor_keys(settings)
    assert asked[0].unsigned.startswith(b"txmanager trial signature\n")
    assert "no signature" not in found.what

    async def away(self, key, curve, requests):
        return [SignerAway("hsm: the module did not answer and was killed")] * len(requests)

    monkeypatch.setattr(Pkcs11Provider, "sign_many", away)
    [found] = await doctor_keys(settings)
    assert found.level == "fail"
    assert "gets no signature: hsm: the module did not answer" in found.what
