"""Keys in a real SoftHSM2: found by label, signing through a child process that is killed when it hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
import uvloop

from tests.signing.softhsm import PIN, TOKEN, SoftHsm
from tests.waiting import until
from txmanager.core.errors import InvalidSettings, SignerAway, SignerRefused
from txmanager.signing import Secret, SigningRequest
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.evm import check_secp256k1
from txmanager.signing.pkcs11 import Pkcs11Options, Pkcs11Provider
from txmanager.signing.remote import RemoteKey, loads
from txmanager.signing.sources import KEY_SOURCES, Asked, Curve

pytest.importorskip("pkcs11", reason="needs txmanager[pkcs11]")


def options(hsm: SoftHsm, pin: str = PIN, **more: object) -> Pkcs11Options:
    made = Pkcs11Options(hsm.module, TOKEN, lambda: Secret(pin), "hsm", timeout_s=30.0)
    return replace(made, **more)


@pytest.fixture
async def provider(softhsm: SoftHsm) -> AsyncIterator[Pkcs11Provider]:
    made = Pkcs11Provider(options(softhsm))
    yield made
    await made.close()


def requests(count: int) -> list[SigningRequest]:
    bodies = [b"transaction %d" % n for n in range(count)]
    return [SigningRequest(body, sha256(body).digest()) for body in bodies]


async def test_signatures_of_both_curves_verify_and_high_s_is_made_low(provider: Pkcs11Provider) -> None:
    near, evm = await provider.describe("near-1"), await provider.describe("evm-1")
    assert (near.curve, evm.curve) == (Curve.ED25519, Curve.SECP256K1)
    batch = requests(24)
    key = RemoteKey(provider, "near-1", near.curve, near.name)
    assert len(await CheckedSigner(key, partial(check_ed25519, near.data)).sign(batch)) == 24
    key = RemoteKey(provider, "evm-1", evm.curve, evm.name)
    raw = await key.sign_many(batch)
    high = [one for one in raw if isinstance(one, bytes) and one[32] >= 0x80]
    assert 0 < len(high) < 24, "about half of them are high"
    low = await CheckedSigner(key, partial(check_secp256k1, evm.name)).sign(batch)
    assert all(int.from_bytes(one[32:64], "big") < 1 << 255 for one in low)


@pytest.mark.parametrize(
    ("key", "curve", "says"),
    [
        ("nowhere", Curve.SECP256K1, "no private key 'nowhere'"),
        ("twice", Curve.SECP256K1, "2 private keys 'twice'; labels must be unique"),
        ("other", Curve.SECP256K1, "another curve"),
        ("near-1", Curve.SECP256K1, "is of ed25519, and this chain needs secp256k1"),
    ],
)
def test_a_key_that_cannot_be_used_is_refused_in_one_sentence(softhsm, key, curve, says) -> None:
    sources = KEY_SOURCES.with_signer("hsm", loads("hsm", lambda: Pkcs11Provider(options(softhsm)), list(Curve)))
    with pytest.raises(InvalidSettings, match=says):
        sources.load(f"hsm:{key}", Asked(curve))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pin": lambda: Secret("000000")}, "the PIN of token 'relayers' is wrong"),
        ({"token": "elsewhere"}, "no token 'elsewhere'"),
        ({"module": "/nowhere/module.so"}, "the module /nowhere/module.so cannot be loaded"),
    ],
)
def test_a_wrong_pin_token_or_module_is_named_and_the_pin_is_not_shown(softhsm, change, says, capfd) -> None:
    made = replace(options(softhsm), **change)
    sources = KEY_SOURCES.with_signer("hsm", loads("hsm", lambda: Pkcs11Provider(made), list(Curve)))
    with pytest.raises(InvalidSettings, match=says) as caught:
        sources.load("hsm:evm-1", Asked(Curve.SECP256K1))
    shown = str(caught.value) + "".join(capfd.readouterr())
    assert "000000" not in shown
    assert PIN not in shown


async def test_a_refused_pin_is_not_tried_until_the_token_locks_itself(softhsm: SoftHsm, tmp_path: Path) -> None:
    pin = ["000001"]
    provider = Pkcs11Provider(replace(options(softhsm, command=_counting(tmp_path)), pin=lambda: Secret(pin[0])))
    for _ in range(12):
        with pytest.raises(SignerRefused, match="PIN"):
            await provider.describe("evm-1")
    assert (tmp_path / "starts").read_text() == "x"
    pin[0] = PIN
    await provider.describe("evm-1")
    await provider.close()


async def test_a_killed_child_costs_its_questions_and_the_next_one_is_answered(provider: Pkcs11Provider) -> None:
    await provider.describe("evm-1")
    for _ in range(3):
        asking = asyncio.gather(*(provider.sign_many("evm-1", Curve.SECP256K1, requests(8)) for _ in range(4)))
        await asyncio.sleep(0)
        assert provider.pid is not None
        os.kill(provider.pid, signal.SIGKILL)
        answers = [one for batch in await asking for one in batch]
        assert all(isinstance(one, bytes | SignerAway) for one in answers)
        assert any(isinstance(one, SignerAway) for one in answers)
    assert all(isinstance(one, bytes) for one in await provider.sign_many("evm-1", Curve.SECP256K1, requests(3)))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_child_that_died_while_nobody_asked_is_replaced(softhsm: SoftHsm, loop) -> None:
    """Programs run on uvloop, which has words of its own for a pipe that is closed."""

    async def story() -> None:
        provider = Pkcs11Provider(options(softhsm))
        await provider.describe("evm-1")
        child = provider._child
        assert child is not None
        child.kill()
        await child.wait()
        await asyncio.sleep(0.2)  # the loop notices that the pipe is closed
        answers = [await provider.sign_many("evm-1", Curve.SECP256K1, requests(1)) for _ in range(2)]
        assert isinstance(answers[-1][0], bytes), answers
        await provider.close()

    running = loop()
    try:
        running.run_until_complete(story())
    finally:
        running.close()


async def test_a_module_that_hangs_is_killed(softhsm: SoftHsm, tmp_path: Path) -> None:
    hangs = (sys.executable, "-c", "import time; time.sleep(600)")
    provider = Pkcs11Provider(options(softhsm, timeout_s=0.5, command=hangs))
    asking = asyncio.create_task(provider.describe("evm-1"))
    await until(lambda: provider.pid is not None, what="the child runs")
    pid = provider.pid
    with pytest.raises(SignerAway, match="did not answer and was killed"):
        await asking
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_answer_of_a_cancelled_question_is_not_taken_for_the_next_ones(provider: Pkcs11Provider) -> None:
    near = await provider.describe("near-1")
    asking = asyncio.create_task(provider.sign_many("near-1", Curve.ED25519, requests(200)))
    await asyncio.sleep(0.005)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    [answer] = await provider.sign_many("near-1", Curve.ED25519, requests(1))
    assert isinstance(answer, bytes)
    assert check_ed25519(near.data, requests(1)[0].digest, answer) == answer


def test_a_pinned_key_starts_a_worker_while_the_module_is_away(softhsm: SoftHsm) -> None:
    away = options(softhsm, command=(sys.executable, "-c", "raise SystemExit(1)"))
    sources = KEY_SOURCES.with_signer("hsm", loads("hsm", lambda: Pkcs11Provider(away), list(Curve)))
    with pytest.raises(InvalidSettings, match="pin its public_key"):
        sources.load("hsm:evm-1", Asked(Curve.SECP256K1))
    [found] = sources.load("hsm:evm-1", Asked(Curve.SECP256K1, pinned="0x" + "11" * 20))
    assert found.signer.public_key == "0x" + "11" * 20

    there = KEY_SOURCES.with_signer("hsm", loads("hsm", lambda: Pkcs11Provider(options(softhsm)), list(Curve)))
    with pytest.raises(InvalidSettings, match="is pinned"):
        there.load("hsm:evm-1", Asked(Curve.SECP256K1, pinned="0x" + "11" * 20))


def _counting(folder: Path) -> tuple[str, ...]:
    """The usual child, leaving a mark for each start."""
    code = (
        f"open({str(folder / 'starts')!r}, 'a').write('x'); "
        "import runpy; runpy.run_module('txmanager.signing.pkcs11_child', run_name='__main__')"
    )
    return (sys.executable, "-c", code)
