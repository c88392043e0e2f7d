"""Keys come from the environment, keystores and mnemonics, agree with eth-account, and never show in an error."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from eth_account import Account
from hypothesis import given, settings

from tests.evm.strategies import private_keys
from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.signing import Secret
from txmanager.signing.evm import EvmSigner, keccak256
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
PHRASE = "test test test test test test test test test test test junk"
FIRST, SECOND = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"


def load_evm_keys(source, environment):
    return [found.signer for found in KEY_SOURCES.load(source, Asked(Curve.SECP256K1, environment=environment))]


@settings(max_examples=50, deadline=None)
@given(private_keys)
def test_address_and_signature_are_eth_accounts(key):
    signer, oracle = EvmSigner(Secret(key)), Account.from_key(key)
    assert signer.address == oracle.address.lower()
    digest = keccak256(key)
    theirs = oracle.unsafe_sign_hash(digest)
    ours = signer.sign(digest)
    assert (int.from_bytes(ours[:32], "big"), int.from_bytes(ours[32:64], "big")) == (theirs.r, theirs.s)
    assert ours[64] == theirs.v - 27


@pytest.mark.parametrize("text", [KEY, "0x" + KEY, f"  0X{KEY.upper()}\n"])
def test_a_private_key_comes_from_the_environment(text):
    [signer] = load_evm_keys("env:RELAYER", {"RELAYER": text})
    assert signer.address == Account.from_key(KEY).address.lower()


def test_a_mnemonic_gives_as_many_lanes_as_asked():
    signers = load_evm_keys("mnemonic:PHRASE:2", {"PHRASE": PHRASE})
    assert [s.address for s in signers] == [FIRST, SECOND]
    [second] = load_evm_keys("mnemonic:PHRASE:1-1", {"PHRASE": PHRASE})
    assert second.address == SECOND


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_a_keystore_opens_with_its_password_alone(tmp_path: Path, kdf):
    made = Account.encrypt(KEY, "correct horse", kdf=kdf, iterations=2)
    path = tmp_path / "key.json"
    path.write_text(json.dumps(made))
    [signer] = load_evm_keys(f"file:{path}", {"TXMANAGER_PASSPHRASE": "correct horse"})
    assert signer.address == Account.from_key(KEY).address.lower()
    path.write_text(json.dumps([made, made]))
    assert len(load_evm_keys(f"file:{path}", {"TXMANAGER_PASSPHRASE": "correct horse"})) == 2
    with pytest.raises(InvalidSettings, match="passphrase"):
        load_evm_keys(f"file:{path}", {"TXMANAGER_PASSPHRASE": "wrong"})
    path.write_text(json.dumps({**made, "address": "00" * 20}))
    with pytest.raises(InvalidSettings, match="belongs to"):
        load_evm_keys(f"file:{path}", {"TXMANAGER_PASSPHRASE": "correct horse"})


@pytest.mark.parametrize(
    ("source", "environment", "says"),
    [
        ("env:NOWHERE", {}, "is not set"),
        ("env:SHORT", {"SHORT": KEY[:-1]}, "64 hex digits"),
        ("env:ODD", {"ODD": "g" * 64}, "64 hex digits"),
        ("env:ZERO", {"ZERO": "0" * 64}, "not a number of the curve"),
        ("env:LARGE", {"LARGE": "f" * 64}, "not a number of the curve"),
        ("mnemonic:PHRASE", {"PHRASE": PHRASE}, "looks like mnemonic:NAME:4"),
        ("mnemonic:PHRASE:0", {"PHRASE": PHRASE}, "1 to 1000 addresses"),
        ("mnemonic:PHRASE:2-1", {"PHRASE": PHRASE}, "1 to 1000 addresses"),
        ("mnemonic:PHRASE:1", {"PHRASE": PHRASE.replace("junk", "test")}, "not a valid BIP-39 phrase"),
        ("file:/nonexistent/key.json", {}, "cannot read"),
        ("vault:x", {}, "starts with 'env:', 'file:' or 'mnemonic:'"),
        (KEY, {}, "never the key itself"),
    ],
)
def test_a_bad_source_is_named_and_no_secret_is_quoted(source, environment, says):
    with pytest.raises(InvalidSettings, match=says) as caught:
        load_evm_keys(source, environment)
    chain, shown = caught.value, ""
    while chain is not None:
        shown += str(chain) + repr(chain)
        chain = None if chain.__suppress_context__ else chain.__context__
    assert KEY[:-1] not in shown
    assert "junk" not in shown
    assert "test test" not in shown


def test_a_signer_does_not_leave_the_process_and_does_not_print():
    signer = EvmSigner.parse(Secret(KEY))
    assert KEY not in repr(signer)
    with pytest.raises(TypeError):
        pickle.dumps(signer)
    with pytest.raises(InvalidInput):
        EvmSigner(Secret(b"short"))
