"""Transactions as bytes: V0 for ordinary keys, V1 for gas keys and strict nonces. The hot path of a lane.

What is the same for every transaction of a lane is encoded once (`Envelope`), what is the same for every attempt of
an intent once (its actions); only nonce, block hash and signature are new. A key in memory signs the same terms to the
same bytes; other signers may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256

from txmanager.chains.near.actions import Action, DelegateAction, SignedDelegate, encode_actions, read_actions
from txmanager.chains.near.borsh import Reader, string, u16, u32, u64
from txmanager.chains.near.names import PUBLIC_KEY_SIZES, PublicKey
from txmanager.core.values import value
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.signer import InstantSigner, Signer, SigningRequest, instant
from txmanager.signing.trial import trial_request

DELEGATE_PREFIX, SECOND_PREFIX = u32((1 << 30) + 366), u32((1 << 30) + 611)
"""NEP-461: no signature over a delegate is also one over a transaction."""


_VERSION = 1

Call = tuple[int, bytes, bytes]
"""Nonce, receiver and actions, encoded."""


@value(frozen=True, slots=True)
class Signed:
    raw: bytes
    hash: bytes


def call_bytes(receiver_id: str, actions: tuple[Action, ...]) -> tuple[bytes, bytes]:
    """The two parts of an intent that no attempt changes: receiver and actions."""
    return string(receiver_id), encode_actions(actions)


class Envelope:
    """One lane's frame around its transactions."""

    __slots__ = ("_checked", "_curve", "_head", "_index", "_sign", "_tail")

    def __init__(
        self,
        account_id: str,
        public_key: PublicKey,
        signer: Signer,
        nonce_index: int | None = None,
        strict: bool = False,
    ) -> None:
        self._checked = CheckedSigner(signer, partial(check_ed25519, public_key.data))
        now = instant(signer)
        self._sign = now.sign if now is not None else None
        self._curve = bytes((public_key.curve,))
        self._index = b""
        self._head = string(account_id) + public_key.borsh
        self._tail = b""
        if nonce_index is not None or strict:
            self._head = bytes((_VERSION,)) + self._head + (b"\x00" if nonce_index is None else b"\x01")
            self._index = b"" if nonce_index is None else u16(nonce_index)
            self._tail = b"\x01" if strict else b"\x00"

    def _body(self, call: Call, block_hash: bytes) -> bytes:
        nonce, receiver, actions = call
        return b"".join((self._head, u64(nonce), self._index, receiver, block_hash, actions, self._tail))

    @property
    def instant(self) -> bool:
        return self._sign is not None

    def unsigned(self, call: Call, block_hash: bytes, *, urgent: bool = False) -> SigningRequest:
        body = self._body(call, block_hash)
        return SigningRequest(body, sha256(body).digest(), urgent)

    def assemble(self, request: SigningRequest, signature: bytes) -> Signed:
        return Signed(request.unsigned + self._curve + signature, request.digest)

    async def sign(self, calls: Sequence[Call], block_hash: bytes, *, urgent: bool = False) -> list[Signed]:
        """The signed prefix, at least one; see `CheckedSigner`. A key in memory signs all of them at once."""
        if self._sign is not None:
            return self.sign_now(calls, block_hash)
        requests = [self.unsigned(call, block_hash, urgent=urgent) for call in calls]
        signatures = await self._checked.sign(requests)
        return [self.assemble(request, one) for request, one in zip(requests, signatures, strict=False)]

    def sign_now(self, calls: Sequence[Call], block_hash: bytes) -> list[Signed]:
        """With a key in memory only. The steps above in one, because every intent comes through here."""
        sign, curve = self._sign, self._curve
        assert sign is not None
        bodies = [self._body(call, block_hash) for call in calls]
        digests = [sha256(body).digest() for body in bodies]
        return [Signed(body + curve + sign(digest), digest) for body, digest in zip(bodies, digests, strict=True)]

    async def trial(self) -> None:
        request = trial_request(self._checked.signer.public_key, lambda data: sha256(data).digest())
        await self._checked.sign([request])

    async def close(self) -> None:
        await self._checked.signer.close()


@value(frozen=True, slots=True)
class Read:
    """What the bytes of a transaction say, of either version."""

    account_id: str
    public_key: PublicKey
    nonce: int
    nonce_index: int | None
    receiver_id: str
    actions: tuple[Action, ...]


def _read(raw: bytes) -> tuple[Read, Reader, bool]:
    """... up to its actions; the reader stands behind them."""
    reader = Reader(raw, "raw")
    first = reader.u8()
    versioned = first == _VERSION  # else it is the length of the signer's name, which has at least two letters
    reader = Reader(raw[1:] if versioned else raw, "raw")
    account_id, curve = reader.string(), reader.u8()
    if curve not in PUBLIC_KEY_SIZES:
        raise reader.wrong(f"key type {curve} is not supported")
    public_key = PublicKey(curve, reader.take(PUBLIC_KEY_SIZES[curve]))
    form = reader.u8() if versioned else 0
    if form > 1:
        raise reader.wrong(f"a nonce has form 0 or 1, not {form}")
    nonce, index = reader.u64(), reader.u16() if form == 1 else None
    receiver_id = reader.string()
    reader.take(32)
    return Read(account_id, public_key, nonce, index, receiver_id, read_actions(reader)), reader, versioned


def actions_of(raw: bytes) -> tuple[Action, ...]:
    """The actions in signed bytes of ours, of either version."""
    return _read(raw)[0].actions


def read_unsigned(raw: bytes) -> Read:
    """The whole of what a key is asked to sign; whatever is odd about the bytes is refused."""
    transaction, reader, versioned = _read(raw)
    if versioned and (strict := reader.u8()) > 1:
        raise reader.wrong(f"the nonce mode is 0 or 1, not {strict}")
    reader.end()
    return transaction


def delegate_digest(delegate: DelegateAction) -> bytes:
    """What the user signs (NEP-461)."""
    return sha256((SECOND_PREFIX if delegate.second else DELEGATE_PREFIX) + delegate.encode()).digest()


def sign_delegate(delegate: DelegateAction, signer: InstantSigner) -> SignedDelegate:
    return SignedDelegate(delegate, delegate.public_key.curve, signer.sign(delegate_digest(delegate)))
