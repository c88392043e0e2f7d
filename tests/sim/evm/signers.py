"""EVM lanes whose keys are elsewhere: `RandomSigner`, until the quiet. A signature is part of a transaction's hash
here, so signing the same bytes twice makes two transactions of one nonce."""

from __future__ import annotations

import random
from typing import Any

from coincurve import PrivateKey

from tests.sim.evm.world import LANES, RECEIVER, SIGNERS, Result, World
from tests.sim.evm.world import run as run_world
from tests.sim.history import Ended
from tests.sim.loop import VirtualLoop
from tests.sim.random_signer import Moods, RandomSigner
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, QuarantineCause
from txmanager.signing.evm import EvmSigner
from txmanager.signing.signer import Signer


def other_signature(signer: EvmSigner, digest: bytes, dice: random.Random) -> bytes:
    """Right, other bytes each time, and without a recovery id, as HSMs have it."""
    from coincurve._libsecp256k1 import ffi, lib

    key: PrivateKey = signer._key
    nonce = (lib.secp256k1_nonce_function_default, ffi.new("char [32]", dice.randbytes(32)))
    return bytes(key.sign_recoverable(digest, hasher=None, custom_nonce=nonce))[:64]


class SignerWorld(World):
    last: SignerWorld

    def __init__(self, seed: int, loop: VirtualLoop, verbose: bool) -> None:
        super().__init__(seed, loop, verbose)
        dice = random.Random(f"forbidden:{seed}")
        self.forbidden = {1000 + n for n in range(len(self.intents)) if dice.random() < 0.15}
        self.moods = Moods(seed, lambda: self.healing, self._forbids)
        SignerWorld.last = self

    def _forbids(self, unsigned: bytes) -> bool:
        to = bytes.fromhex(RECEIVER[2:])
        return any(to + b"\x82" + value.to_bytes(2, "big") in unsigned for value in self.forbidden)

    def keys(self) -> dict[str, Signer]:
        return {
            lane: RandomSigner(
                signer.public_key, lambda digest, dice, key=signer: other_signature(key, digest, dice), self.moods
            )
            for lane, signer in zip(LANES, SIGNERS, strict=True)
        }

    def _check_sent(self, params: Any) -> None:
        super()._check_sent(params)
        tx = self.machine.decode(bytes.fromhex(params[0][2:]))
        if tx.sender not in {signer.address for signer in SIGNERS}:
            self.say("a signature of nobody was sent")
        if tx.value in self.forbidden:
            self.say("what the signer forbids was sent")

    def ended(self, fact: Ended) -> None:
        super().ended(fact)
        refused = (fact.outcome.error or {}).get("code") == "transaction_refused"
        if refused and 1000 + int(fact.id.key[1:]) not in self.forbidden:
            self.say(f"{fact.id.key} failed for what the signer refused to somebody else")

    async def _operate(self) -> None:
        for lane, store in self.ledger.stores.items():
            if store.state is LaneState.QUARANTINED and store.cause is QuarantineCause.BAD_SIGNATURE:
                await self.ledger.set_lane(lane, LaneState.PAUSED, command=LaneCommand.TRIAL)
        await super()._operate()


def run(seed: int, *, verbose: bool = False) -> Result:
    return run_world(seed, verbose=verbose, kind=SignerWorld)
