"""Recorded transactions, signed again for another chain: same actions, our keys, our block hash, our nonces.

A small reader of the wire format of its own, so that neither the product's codec nor the devnet's decoder is trusted to
say what the real node was sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import base58
import nacl.exceptions
import nacl.signing

NONCES = 1_000_000
_KEY_BYTES = {0: 32, 1: 64, 2: 1952}
_SIGNATURE_BYTES = {0: 64, 1: 65, 2: 3309}
_DELEGATE, _DELEGATE_V2 = (2**30 + 366).to_bytes(4, "little"), (2**30 + 611).to_bytes(4, "little")

FirstNonce = Callable[[str, str], int | None]


@dataclass
class Chain:
    """Where the copies go."""

    first_nonce: FirstNonce
    """The nonce that a key of an account began with there, or None when there is no such key."""
    block_hash: bytes = b""
    height: int = 0
    bases: dict[str, tuple[int, int]] = field(default_factory=dict)

    def nonce(self, account_id: str, key: str, recorded: int) -> int:
        if key not in self.bases:
            first = self.first_nonce(account_id, key)
            if first is None:
                return recorded
            self.bases[key] = (recorded - recorded % NONCES, first)
        theirs, ours = self.bases[key]
        return recorded - theirs + ours


def our_key(recorded: bytes) -> nacl.signing.SigningKey:
    return nacl.signing.SigningKey(hashlib.sha256(b"ours" + recorded).digest())


def our_public_key(recorded: str) -> str:
    """Our stand-in for a key whose secret we do not have. Keys of other curves only ever appear as data: they stay."""
    curve, _, data = recorded.partition(":")
    if curve != "ed25519":
        return recorded
    return "ed25519:" + base58.b58encode(our_key(base58.b58decode(data)).verify_key.encode()).decode()


class _Copy:
    """Reads recorded bytes and writes their counterpart, field by field."""

    def __init__(self, raw: bytes, chain: Chain) -> None:
        self.raw, self.at, self.out, self.chain = raw, 0, bytearray(), chain

    def take(self, count: int) -> bytes:
        part = self.raw[self.at : self.at + count]
        assert len(part) == count, "the recording ends too early"
        self.at += count
        return part

    def keep(self, count: int) -> bytes:
        part = self.take(count)
        self.out += part
        return part

    def u32(self) -> int:
        return int.from_bytes(self.keep(4), "little")

    def text(self) -> str:
        return self.keep(self.u32()).decode()

    def key(self) -> tuple[bytes, str]:
        """The recorded key, and the name of ours."""
        curve = self.keep(1)[0]
        data = self.take(_KEY_BYTES[curve])
        ours = our_key(data).verify_key.encode() if curve == 0 else data
        self.out += ours
        return data, "ed25519:" + base58.b58encode(ours).decode()

    def nonce(self, account_id: str, key: str) -> None:
        recorded = int.from_bytes(self.take(8), "little")
        self.out += self.chain.nonce(account_id, key, recorded).to_bytes(8, "little")

    def signature(self, prefix: bytes, theirs: tuple[int, int], ours: int, key: bytes) -> None:
        """Sign our bytes if the recorded signature was good; a bad one stays bad."""
        said = self.raw[slice(*theirs)]
        curve = self.keep(1)[0]
        recorded = self.take(_SIGNATURE_BYTES[curve])
        try:
            nacl.signing.VerifyKey(key).verify(hashlib.sha256(prefix + said).digest(), recorded)
        except nacl.exceptions.BadSignatureError:
            self.out += recorded
            return
        self.out += our_key(key).sign(hashlib.sha256(prefix + bytes(self.out[ours:-1])).digest()).signature

    def permission(self) -> None:
        kind = self.keep(1)[0]
        if kind in (2, 3):
            self.keep(18)
        if kind in (0, 2):
            if self.keep(1)[0]:
                self.keep(16)
            self.text()
            for _ in range(self.u32()):
                self.text()

    def action(self) -> None:
        kind = self.keep(1)[0]
        match kind:
            case 0:
                pass
            case 1:
                self.keep(self.u32())
            case 2:
                self.text()
                self.keep(self.u32())
                self.keep(24)
            case 3:
                self.keep(16)
            case 5:
                self.key()
                self.keep(8)
                self.permission()
            case 6:
                self.key()
            case 7:
                self.text()
            case 8 | 14:
                self.delegate(second=kind == 14)
            case 12 | 13:
                self.key()
                self.keep(16)
            case _:
                raise AssertionError(f"no recorded transaction has action {kind}")

    def delegate(self, *, second: bool) -> None:
        theirs, ours = self.at, len(self.out)
        if second:
            self.keep(1)
        sender = self.text()
        self.text()
        for _ in range(self.u32()):
            self.action()
        index = b""
        form = self.take(1) if second else b""
        nonce = self.take(8)
        if form == b"\x01":
            index = self.take(2)
        until = int.from_bytes(self.take(8), "little")
        before = len(self.out)
        data, key = self.key()
        told = bytes(self.out[before:])
        del self.out[before:]
        self.out += form + self.chain.nonce(sender, key, int.from_bytes(nonce, "little")).to_bytes(8, "little") + index
        self.out += (until if until < 100 else self.chain.height + 1_000).to_bytes(8, "little") + told
        self.signature(_DELEGATE_V2 if second else _DELEGATE, (theirs, self.at), ours, data)

    def transaction(self) -> bytes:
        first = self.raw[0] == 1
        if first:
            self.keep(1)
        signer = self.text()
        data, key = self.key()
        indexed = first and self.keep(1)[0] == 1
        self.nonce(signer, key)
        if indexed:
            self.keep(2)
        self.text()
        self.take(32)
        self.out += self.chain.block_hash
        for _ in range(self.u32()):
            self.action()
        if first:
            self.keep(1)
        self.signature(b"", (0, self.at), 0, data)
        assert self.at == len(self.raw), "the recording goes on"
        return bytes(self.out)


def resigned(raw: bytes, chain: Chain) -> bytes:
    return _Copy(raw, chain).transaction()
