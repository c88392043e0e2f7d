"""Delegates of both forms, signed by keys of every kind, on a devnet of the test's own."""

from __future__ import annotations

import base64
from typing import Any

import base58
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from tests.near.world import BOB, CAROL, NearWorld, intent, lane_of
from txmanager.chains.near import NearPolicy, PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.names import ML_DSA_65
from txmanager.chains.near.transaction import delegate_digest, sign_delegate
from txmanager.core.models import Intent
from txmanager.signing import Ed25519Signer


class MlDsaSigner:
    """A user's post-quantum key. The product never signs with one."""

    def __init__(self) -> None:
        self._key = MLDSA65PrivateKey.generate()
        self.key = PublicKey(ML_DSA_65, self._key.public_key().public_bytes_raw())

    def sign_delegate(self, delegate: act.DelegateAction) -> act.SignedDelegate:
        return act.SignedDelegate(delegate, ML_DSA_65, self._key.sign(delegate_digest(delegate)))


def delegate(world: NearWorld, key: PublicKey, **changes: Any) -> act.DelegateAction:
    head = world.network.head()
    told: dict[str, Any] = {
        "sender_id": BOB.account_id,
        "receiver_id": CAROL.account_id,
        "actions": (act.Transfer(5),),
        "nonce": head.height * 10**6 - 1,
        "max_block_height": head.height + 100,
        "public_key": key,
    } | changes
    return act.DelegateAction(**told)


def bobs(world: NearWorld, **changes: Any) -> act.SignedDelegate:
    """Signed by Bob's own key."""
    _, signer = lane_of(BOB)
    return sign_delegate(delegate(world, PublicKey.parse(signer.public_key), **changes), signer)


def as_base64(signed: act.SignedDelegate, *, tagged: bool = False) -> str:
    return base64.b64encode(signed.encode() if tagged else signed.encode_bare()).decode()


def as_json(signed: act.SignedDelegate) -> dict[str, Any]:
    """As nearcore writes it; transfers only."""
    inner = signed.delegate
    nonce: Any = inner.nonce
    if inner.second and inner.nonce_index is None:
        nonce = {"Nonce": {"nonce": inner.nonce}}
    elif inner.second:
        nonce = {"GasKeyNonce": {"nonce": inner.nonce, "nonce_index": inner.nonce_index}}
    told = {
        "sender_id": inner.sender_id,
        "receiver_id": inner.receiver_id,
        "actions": [{"Transfer": {"deposit": str(a.deposit)}} for a in inner.actions if isinstance(a, act.Transfer)],
        "nonce": nonce,
        "max_block_height": inner.max_block_height,
        "public_key": str(inner.public_key),
    }
    name = str(inner.public_key).partition(":")[0]
    signature = f"{name}:{base58.b58encode(signed.signature).decode()}"
    return {"delegate_action": {"V2": told} if inner.second else told, "signature": signature}


def as_intent(signed: act.SignedDelegate) -> Intent:
    return intent("k", "near.delegate", {"signed_delegate": as_base64(signed)})


async def add_key(world: NearWorld, key: str, **more: Any) -> None:
    """Give Bob one more key, by a delegate of his own that Alice relays."""
    added = act.AddKey(PublicKey.parse(key), **more)
    signed = bobs(world, receiver_id=BOB.account_id, actions=(added,))
    policy = NearPolicy(delegate_actions=frozenset({"add_key"}))
    world.chain._policy, before = policy, world.chain._policy
    outcome = await world.run(as_intent(signed))
    world.chain._policy = before
    assert outcome.status == "done", outcome
    world.network.advance(3)


async def gas_key(world: NearWorld, lanes: int = 4) -> Ed25519Signer:
    signer = Ed25519Signer.generate()
    await add_key(world, signer.public_key, num_nonces=lanes)
    return signer
