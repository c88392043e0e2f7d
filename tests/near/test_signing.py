"""Secrets never show, keys come from where they are kept, and a wrong one is refused with a reason."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import stat
import traceback

import pytest
from nacl.signing import VerifyKey

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.signing import Ed25519Signer, Secret, vault
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve


@pytest.fixture
def signer() -> Ed25519Signer:
    return Ed25519Signer(Secret(bytes(range(32))))


def test_a_secret_shows_in_no_text_form():
    secret = Secret("hunter2-hunter2")
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s %r" % (secret, secret), str([secret])]  # noqa: UP031
    assert not any("hunter2" in text for text in shown)


@pytest.mark.parametrize("leak", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps])
@pytest.mark.parametrize("kind", ["secret", "signer"])
def test_secrets_and_signers_cannot_be_copied_out(leak, kind, signer):
    with pytest.raises(TypeError):
        leak(Secret(b"x") if kind == "secret" else signer)


def test_a_signer_shows_its_public_key_only(signer, caplog):
    private = signer.export().reveal().decode()
    with caplog.at_level(logging.INFO):
        logging.info("using %s", signer)
    assert signer.public_key in caplog.text
    assert private not in caplog.text
    assert not hasattr(signer, "__dict__")


def test_a_signature_verifies_and_is_the_same_each_time(signer):
    digest = bytes(32)
    VerifyKey(signer.public_bytes).verify(digest, signer.sign(digest))
    assert signer.sign(digest) == signer.sign(digest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("secp256k1:abc", "must start with 'ed25519:'"),
        ("ed25519:0OIl", "not base58"),
        ("ed25519:abc", "32 or 64 bytes"),
    ],
)
def test_a_wrong_key_is_refused_without_showing_it(text, words):
    with pytest.raises(InvalidInput) as caught:
        Ed25519Signer.parse(Secret(text))
    assert words in str(caught.value)
    assert text not in "".join(traceback.format_exception(caught.value))


def test_a_key_whose_halves_do_not_match_is_refused(signer):
    import base58

    with pytest.raises(InvalidInput, match="halves"):
        Ed25519Signer.parse(Secret("ed25519:" + base58.b58encode(bytes(32) + signer.public_bytes).decode()))


def test_keys_load_from_credentials_environment_and_vault(tmp_path, signer):
    private = signer.export().reveal().decode()
    credentials = tmp_path / "relayer.json"
    credentials.write_text(json.dumps({"account_id": "a.near", "private_key": private}))
    safe = tmp_path / "keys.json"
    vault.save(safe, Secret("correct horse"), [("a.near", signer)])
    environment = {"KEY": private, "TXMANAGER_PASSPHRASE": "correct horse"}
    for source in (f"file:{credentials}", "env:KEY", f"vault:{safe}"):
        [found] = KEY_SOURCES.load(source, Asked(Curve.ED25519, "a.near", environment))
        assert (found.account, found.signer.public_key) == ("a.near", signer.public_key)
    assert private.removeprefix("ed25519:") not in safe.read_text()
    assert stat.S_IMODE(safe.stat().st_mode) == 0o600
    assert vault.public_names(safe) == [("a.near", signer.public_key)]


def test_a_vault_opens_with_its_own_passphrase_only(tmp_path, signer):
    safe = tmp_path / "keys.json"
    vault.save(safe, Secret("correct horse"), [("a.near", signer)])
    with pytest.raises(InvalidSettings, match="passphrase"):
        vault.load(safe, Secret("wrong horse!"))
    content = json.loads(safe.read_text())
    content["box"] = content["box"][:-2] + ("00" if content["box"][-2:] != "00" else "11")
    safe.write_text(json.dumps(content))
    with pytest.raises(InvalidSettings, match="damaged"):
        vault.load(safe, Secret("correct horse"))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("ed25519:secretsecret", "never the key itself"),
        ("env:NOT_SET", "is not set"),
        ("file:/nowhere/x.json", "cannot read"),
        ("vault:/nowhere/x.json", "passphrase"),
    ],
)
def test_a_wrong_source_says_what_to_fix(source, words):
    with pytest.raises(InvalidSettings, match=words):
        KEY_SOURCES.load(source, Asked(Curve.ED25519, "a.near", {}))


def test_credentials_of_another_key_are_refused(tmp_path, signer):
    path = tmp_path / "x.json"
    told = {"account_id": "a.near", "private_key": signer.export().reveal().decode(), "public_key": "ed25519:other"}
    path.write_text(json.dumps(told))
    with pytest.raises(InvalidSettings, match="public_key is ed25519:other"):
        KEY_SOURCES.load(f"file:{path}", Asked(Curve.ED25519))
