"""Keys in a KMS that speaks AWS's protocol: aliases, both curves, and what refusal, throttling and expiry become."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import partial
from hashlib import sha256

import pytest

from tests.signing.ministack import FaultProxy, Ministack
from txmanager.core.errors import InvalidSettings, SignerAway, SignerRefused
from txmanager.signing import SigningRequest
from txmanager.signing.aws_kms import KmsOptions, KmsProvider, read_der
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.evm import check_secp256k1
from txmanager.signing.remote import RemoteKey, loads
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve

pytest.importorskip("botocore", reason="needs txmanager[aws]")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret-of-anybody")


@pytest.fixture
async def proxy(ministack: Ministack) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(ministack.url) as made:
        yield made


@pytest.fixture
async def provider(proxy: FaultProxy) -> AsyncIterator[KmsProvider]:
    made = KmsProvider(KmsOptions("us-east-1", proxy.url, timeout_s=30.0))
    yield made
    await made.close()


def requests(count: int) -> list[SigningRequest]:
    bodies = [b"transaction %d" % n for n in range(count)]
    return [SigningRequest(body, sha256(body).digest()) for body in bodies]


async def test_both_curves_sign_and_verify_by_alias(provider: KmsProvider) -> None:
    near, evm = await provider.describe("alias/near-1"), await provider.describe("alias/evm-1")
    assert (near.curve, evm.curve) == (Curve.ED25519, Curve.SECP256K1)
    key = RemoteKey(provider, "alias/near-1", near.curve, near.name)
    assert len(await CheckedSigner(key, partial(check_ed25519, near.data)).sign(requests(8))) == 8
    key = RemoteKey(provider, "alias/evm-1", evm.curve, evm.name)
    assert len(await CheckedSigner(key, partial(check_secp256k1, evm.name)).sign(requests(8))) == 8


async def test_an_alias_that_moves_does_not_move_the_key(provider: KmsProvider, ministack: Ministack) -> None:
    before = await provider.describe("alias/moves")
    other = ministack.ask("CreateKey", KeySpec="ECC_SECG_P256K1", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["Arn"]
    ministack.ask("UpdateAlias", AliasName="alias/moves", TargetKeyId=other)
    [answer] = await provider.sign_many("alias/moves", Curve.SECP256K1, requests(1))
    assert isinstance(answer, bytes)
    assert check_secp256k1(before.name, requests(1)[0].digest, answer) is not None


@pytest.mark.parametrize(
    ("status", "kind", "fault"),
    [
        (400, "AccessDeniedException", SignerRefused),
        (400, "DisabledException", SignerRefused),
        (400, "KMSInvalidStateException", SignerRefused),
        (400, "ThrottlingException", SignerAway),
        (400, "ExpiredTokenException", SignerAway),
        (400, "KeyUnavailableException", SignerAway),
        (500, "KMSInternalException", SignerAway),
        (503, "", SignerAway),
    ],
)
async def test_what_the_kms_says_tells_whether_to_wait_or_to_pause(provider, proxy, status, kind, fault) -> None:
    await provider.describe("alias/evm-1")
    proxy.fail(status, kind)
    answers = await provider.sign_many("alias/evm-1", Curve.SECP256K1, requests(3))
    assert {type(one) for one in answers} == {fault}
    proxy.fault = None
    assert all(isinstance(one, bytes) for one in await provider.sign_many("alias/evm-1", Curve.SECP256K1, requests(3)))


async def test_expired_credentials_are_read_again(provider, proxy, monkeypatch) -> None:
    await provider.describe("alias/evm-1")
    proxy.fail(400, "ExpiredTokenException")
    await provider.sign_many("alias/evm-1", Curve.SECP256K1, requests(1))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDNEW")
    assert (await provider._current_credentials()).access_key == "AKIDNEW"


async def test_throttling_halves_the_rate_once_for_a_burst(proxy: FaultProxy) -> None:
    provider = KmsProvider(KmsOptions("us-east-1", proxy.url, per_second=1_000.0, timeout_s=30.0))
    await provider.describe("alias/evm-1")
    proxy.fail(400, "ThrottlingException")
    await provider.sign_many("alias/evm-1", Curve.SECP256K1, requests(10))
    assert provider.limiter.rate is not None
    assert 480 <= provider.limiter.rate <= 800
    await provider.close()


async def test_a_kms_that_does_not_answer_is_away(proxy: FaultProxy) -> None:
    provider = KmsProvider(KmsOptions("us-east-1", proxy.url, timeout_s=0.3))
    proxy.hang = True
    [answer] = await provider.sign_many("alias/evm-1", Curve.SECP256K1, requests(1))
    assert isinstance(answer, SignerAway)
    await provider.close()


@pytest.mark.parametrize(
    ("key", "curve", "says"),
    [
        ("alias/nowhere", Curve.SECP256K1, "refuses key 'alias/nowhere'"),
        ("alias/p256", Curve.SECP256K1, "is ECC_NIST_P256; a relayer's key is"),
        ("alias/near-1", Curve.SECP256K1, "is of ed25519, and this chain needs secp256k1"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_in_one_sentence(ministack, key, curve, says) -> None:
    options = KmsOptions("us-east-1", ministack.url, timeout_s=30.0)
    sources = KEY_SOURCES.with_signer("aws", loads("aws", lambda: KmsProvider(options), list(Curve)))
    with pytest.raises(InvalidSettings, match=says):
        sources.load(f"aws:{key}", Asked(curve))


def test_der_is_read_strictly() -> None:
    right = base64.b64decode("MAYCAQECAQI=")
    assert read_der(right) == (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
    for wrong in (b"", b"\x30\x00", right[:-1], right + b"\0", b"\x31" + right[1:]):
        with pytest.raises((ValueError, IndexError)):
            read_der(wrong)
