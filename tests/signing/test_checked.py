"""A signature is used only when it is one of this key over these bytes; what fails stops nothing before it."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

import pytest
from coincurve import PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.signing.signers import (
    RemoteSigner,
    high_s,
    other_ed25519_signature,
    other_secp256k1_signature,
)
from txmanager.core.errors import BadSignature, SignerAway
from txmanager.signing import Ed25519Signer, Secret, SigningRequest
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.evm import EvmSigner, check_secp256k1

SEED = bytes(range(32))
NEAR, EVM = Ed25519Signer(Secret(SEED)), EvmSigner(Secret(SEED[1:] + b"\x07"))
digests = st.binary(min_size=32, max_size=32)


def requests(count: int) -> list[SigningRequest]:
    bodies = [b"transaction %d" % n for n in range(count)]
    return [SigningRequest(body, sha256(body).digest()) for body in bodies]


def stage(delay_s: float = 0.0) -> tuple[RemoteSigner, CheckedSigner]:
    remote = RemoteSigner(NEAR, delay_s)
    return remote, CheckedSigner(remote, partial(check_ed25519, NEAR.public_bytes))


@settings(max_examples=60, deadline=None)
@given(digests)
def test_a_high_s_without_recovery_id_becomes_the_chains_own_form(digest):
    right = EVM.sign(digest)
    assert check_secp256k1(EVM.address, digest, right) == right
    assert check_secp256k1(EVM.address, digest, right[:64]) == right
    assert check_secp256k1(EVM.address, digest, high_s(right)) == right
    wrong_recovery = right[:64] + bytes((1 - right[64],))
    assert check_secp256k1(EVM.address, digest, wrong_recovery) == right


@settings(max_examples=60, deadline=None)
@given(digests, st.integers(0, 63), st.integers(1, 255))
def test_a_changed_signature_is_none_of_this_key(digest, at, flip):
    for check, right in (
        (partial(check_secp256k1, EVM.address), EVM.sign(digest)),
        (partial(check_ed25519, NEAR.public_bytes), NEAR.sign(digest)),
    ):
        assert check(digest, right) == right
        assert check(digest, right[:at] + bytes((right[at] ^ flip,)) + right[at + 1 :]) is None
        assert check(sha256(digest).digest(), right) is None
        for odd in (b"", right[:63], right + b"\0", bytes(64), b"\xff" * 64):
            assert check(digest, odd) is None


def test_signatures_with_other_bytes_each_time_are_right_too():
    digest, key = bytes(32), PrivateKey(SEED[1:] + b"\x07")
    two = {other_secp256k1_signature(key, digest) for _ in range(2)}
    assert len({check_secp256k1(EVM.address, digest, one) for one in two} - {None}) == 2
    two = {other_ed25519_signature(SEED, digest) for _ in range(2)}
    assert len({check_ed25519(NEAR.public_bytes, digest, one) for one in two} - {None}) == 2


async def test_a_failure_in_the_middle_answers_what_is_before_it_and_keeps_what_is_behind():
    remote, checked = stage()
    batch = requests(5)
    remote.spoil = lambda n, right: SignerAway("busy") if n == 2 else right
    assert await checked.sign(batch) == [NEAR.sign(r.digest) for r in batch[:2]]
    # The first two were written ahead; the others are asked for again, and only the failed one is signed.
    assert await checked.sign(batch[2:]) == [NEAR.sign(r.digest) for r in batch[2:]]
    assert remote.asked[5:] == [batch[2]]


async def test_a_failure_of_the_first_is_raised_and_other_bytes_are_signed_anew():
    remote, checked = stage()
    batch = requests(3)
    remote.spoil = lambda n, right: SignerAway("busy") if n == 0 else right
    with pytest.raises(SignerAway):
        await checked.sign(batch)
    others = [SigningRequest(r.unsigned + b"!", sha256(r.unsigned + b"!").digest()) for r in batch]
    assert await checked.sign(others) == [NEAR.sign(r.digest) for r in others]
    assert len(remote.asked) == 6


@pytest.mark.parametrize(
    "spoil", [lambda right: right[:-1] + bytes((right[-1] ^ 1,)), lambda _: b"", lambda _: bytes(64)]
)
async def test_a_wrong_signature_is_never_answered(spoil):
    remote, checked = stage()
    batch = requests(3)
    remote.spoil = lambda n, right: spoil(right) if n == 1 else right
    assert await checked.sign(batch) == [NEAR.sign(batch[0].digest)]
    with pytest.raises(BadSignature, match="not one of this key"):  # although it would be right now
        await checked.sign(batch[1:])
    assert await checked.sign(batch[1:]) == [NEAR.sign(r.digest) for r in batch[1:]]
    remote.spoil = lambda _, right: spoil(right)
    with pytest.raises(BadSignature, match="not one of this key"):
        await checked.sign(batch[:1])


async def test_a_signature_over_the_neighbours_bytes_is_wrong():
    remote, checked = stage()
    batch = requests(2)
    remote.spoil = lambda n, _: NEAR.sign(batch[1 - n].digest)
    with pytest.raises(BadSignature):
        await checked.sign(batch)


async def test_too_few_answers_are_no_answers(monkeypatch):
    remote, checked = stage()

    async def short(_):
        return [NEAR.sign(requests(1)[0].digest)]

    monkeypatch.setattr(remote, "sign_many", short)
    with pytest.raises(BadSignature, match="1 answers to 2 requests"):
        await checked.sign(requests(2))
