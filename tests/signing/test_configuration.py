"""`[signers.NAME]` tables: a worker is built from them, every mistake is one sentence, no PIN shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.signing.softhsm import PIN, TOKEN, SoftHsm
from txmanager.cli.doctor import keys as doctor_keys
from txmanager.core.errors import InvalidSettings, SignerAway, SignerRefused
from txmanager.programs.worker import serve, try_keys
from txmanager.settings import load
from txmanager.signing.pkcs11 import Pkcs11Provider
from txmanager.signing.signer import Answer
from txmanager.wiring import build_services

ROOT = Path(__file__).parent.parent.parent
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
    near, evm = (next(s.chain for lane, s in services.items() if lane.startswith(name)) for name in ("near", "evm"))
    [envelope], [checked] = near._envelopes.values(), evm._signers.values()
    assert envelope._checked.signer._provider is checked.signer._provider, "one child and one limiter per signer"
    for chain in chains:
        await chain.close()


@pytest.mark.parametrize(
    ("keys", "change", "says"),
    [
        ('"hms:evm-1"', {}, "never the key itself"),
        ('"hsm:evm-1"', {"module = ": 'module = "/nowhere.so" #'}, "the module /nowhere.so cannot be loaded"),
        ('"hsm:evm-1"', {"HSM_PIN": "WRONG_PIN"}, "refuses key 'evm-1': hsm: the PIN of token 'relayers' is wrong"),
        ('"hsm:near-1"', {}, "is of ed25519, and this chain needs secp256k1"),
        ('"hsm:other"', {}, "is of another curve"),
        ('"hsm:twice"', {}, "2 private keys 'twice'; labels must be unique"),
        ('"hsm:evm-1"', {'provider = "pkcs11"': 'provider = "pkcs12"'}, "provider"),
        (
            '"box:x"',
            {"[pools": '[signers.box]\nprovider = "txmanager"\naddress = "unix:/nowhere/s"\n[pools'},
            "pin its",
        ),
        (
            '"box:x"',
            {"[pools": '[signers.box]\nprovider = "txmanager"\naddress = "10.0.0.1:7"\n[pools'},
            "box.tls: is req",
        ),
    ],
)
def test_a_worker_says_one_sentence_and_exits_with_2(
    softhsm: SoftHsm, write, monkeypatch, keys: str, change: dict[str, str], says: str
) -> None:
    text = configuration(softhsm, keys)
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    monkeypatch.setenv("WRONG_PIN", "000002")
    path = write(text)
    said = subprocess.run(
        [sys.executable, "-m", "txmanager.programs.worker"],
        env={**os.environ, "TXMANAGER_CONFIG": str(path), "TXMANAGER__LEDGER__URL": "memory://"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 2, said.stderr
    [line] = [line for line in said.stderr.splitlines() if line.startswith("txmanager: ")]
    assert says in line
    assert PIN not in said.stderr
    assert "000002" not in said.stderr


async def test_a_worker_tries_its_keys_before_it_serves(softhsm: SoftHsm, write, monkeypatch) -> None:
    """A wrong signature is one sentence and exit 2; a signer that is away, or refuses for today, is not."""

    async def answers(answer: Answer) -> None:
        async def sign_many(self, key, curve, requests):
            assert requests[0].unsigned.startswith(b"txmanager trial signature\n")
            return [answer]

        monkeypatch.setattr(Pkcs11Provider, "sign_many", sign_many)
        await try_keys(services)

    async def opened(_: object) -> None:
        raise AssertionError("it got further than its keys")

    settings = load(write(configuration(softhsm, '"hsm:evm-1"')))
    services, chains = build_services(settings)
    await answers(SignerAway("hsm: nobody there"))
    await answers(SignerRefused("the day is used up"))
    with pytest.raises(InvalidSettings, match=r"pools\.evm\.keys: the signer of 0x.* is not one of this key"):
        await answers(bytes(64))
    monkeypatch.setattr("txmanager.programs.worker.open_ledger", opened)
    with pytest.raises(InvalidSettings, match=r"pools\.evm\.keys"):
        await serve(settings)
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
