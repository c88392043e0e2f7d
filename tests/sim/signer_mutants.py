"""Seeded bugs of what stands between a lane and a signer elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from tests.sim.evm.planting import Bugs, Patch
from txmanager.chains.evm import chain as evm_chain
from txmanager.chains.evm.chain import EvmChain
from txmanager.chains.near import chain as near_chain
from txmanager.chains.near.chain import NearChain
from txmanager.core.errors import NotSigned, SignerAway, SignerRefused
from txmanager.runtime.lane.signatures import Signatures
from txmanager.signing.checked import CheckedSigner
from txmanager.signing.signer import SigningRequest

MUTANTS = Bugs()
mutant = MUTANTS.mutant


@mutant
def a_signature_is_believed() -> Sequence[Patch]:
    return [patch.object(CheckedSigner, "_verified", lambda self, request, answer: answer)]


@mutant
def a_failed_item_is_left_out_of_the_batch() -> Sequence[Patch]:
    async def sign(self: CheckedSigner, requests: Sequence[SigningRequest]) -> list[bytes]:
        answers = await self._ask(requests)
        found = [one for one in answers if isinstance(one, bytes)]
        if not found:
            raise answers[0]  # type: ignore[misc]
        return found

    return [patch.object(CheckedSigner, "sign", sign)]


@mutant
def signatures_are_kept_by_their_place() -> Sequence[Patch]:
    sound = CheckedSigner.sign

    async def sign(self: CheckedSigner, requests: Sequence[SigningRequest]) -> list[bytes]:
        by_place: dict[int, bytes] = self.__dict__.setdefault("by_place", {})
        if by_place and all(n in by_place for n in range(len(requests))):
            return [by_place.pop(n) for n in range(len(requests))]
        signed = await sound(self, requests)
        if len(signed) < len(requests):
            by_place.update(enumerate(signed))
        return signed

    return [patch.object(CheckedSigner, "sign", sign)]


@mutant
def a_late_answer_is_taken_for_the_next_question() -> Sequence[Patch]:
    sound = Signatures.get

    async def get(self: Signatures, slot: Any, what: Any, sign: Any, *, wait: bool = False) -> Any:
        return await sound(self, slot, "whatever", sign, wait=wait)

    return [patch.object(Signatures, "get", get)]


@mutant
def a_refusal_fails_another_intent_of_the_batch() -> Sequence[Patch]:
    def of(kind: type[NearChain] | type[EvmChain]) -> Patch:
        sound = kind.sign

        async def sign(self: Any, lane: str, prepared: Any, first_nonce: int, purpose: Any, now: int) -> Any:
            try:
                return await sound(self, lane, prepared, first_nonce, purpose, now)
            except NotSigned as refused:
                raise NotSigned(prepared[-1].intent.id, refused.error) from None

        return patch.object(kind, "sign", sign)

    return [of(NearChain), of(EvmChain)]


@mutant
def one_refused_transaction_stops_the_lane() -> Sequence[Patch]:
    def refuse(id: object, refused: Exception) -> SignerRefused:
        return SignerRefused(str(refused))

    return [patch.object(near_chain, "not_signed", refuse), patch.object(evm_chain, "not_signed", refuse)]


@mutant
def a_refused_transaction_is_asked_for_again_for_ever() -> Sequence[Patch]:
    def again(id: object, refused: Exception) -> SignerAway:
        return SignerAway(str(refused))

    return [patch.object(near_chain, "not_signed", again), patch.object(evm_chain, "not_signed", again)]


@mutant
def a_signer_that_refused_is_never_asked_again() -> Sequence[Patch]:
    async def probe(self: Signatures) -> None:
        return None

    return [patch.object(Signatures, "probe", probe)]


@mutant
def a_high_s_is_sent_as_it_came() -> Sequence[Patch]:
    def check(address: str, digest: bytes, signature: bytes) -> bytes:
        return signature[:64] + b"\0"

    return [patch.object(evm_chain, "check_secp256k1", check)]


@mutant
def a_signature_that_failed_uses_its_nonce_up() -> Sequence[Patch]:
    sound = Signatures._failed

    async def failed(self: Signatures, fault: Any) -> None:
        await sound(self, fault)
        self._lane.plan.head.moved(self._lane.plan.head.cursor + 1)

    return [patch.object(Signatures, "_failed", failed)]
