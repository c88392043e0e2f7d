"""NEAR lanes whose keys are elsewhere: `RandomSigner`, until the quiet. What the signer's policy forbids is decided per
intent and for ever: it must fail alone, unsigned."""

from __future__ import annotations

import random
from base64 import b64decode
from hashlib import sha256
from typing import Any

from nacl import bindings

from tests.sim.cast import SIGNERS
from tests.sim.history import Broke, Ended, History, Recorded
from tests.sim.loop import VirtualLoop
from tests.sim.nodes import SimRpc
from tests.sim.plan import Plan, draw
from tests.sim.random_signer import Moods, RandomSigner
from tests.sim.world import Result, World
from tests.sim.world import run as run_world
from txmanager.core.states import LaneState
from txmanager.core.stops import LaneCommand, QuarantineCause
from txmanager.signing import Ed25519Signer
from txmanager.signing.ed25519 import check_ed25519
from txmanager.signing.signer import Signer


def other_signature(signer: Ed25519Signer, digest: bytes, dice: random.Random) -> bytes:
    """Right, and other bytes each time: its point is drawn, not derived."""
    seed = signer._key[:32]
    scalar = bytearray(bindings.crypto_hash_sha512(seed)[:32])
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    r = bindings.crypto_core_ed25519_scalar_reduce(dice.randbytes(64))
    point = bindings.crypto_scalarmult_ed25519_base_noclamp(r)
    k = bindings.crypto_core_ed25519_scalar_reduce(bindings.crypto_hash_sha512(point + signer.public_bytes + digest))
    a = bindings.crypto_core_ed25519_scalar_reduce(bytes(scalar) + bytes(32))
    s = bindings.crypto_core_ed25519_scalar_add(r, bindings.crypto_core_ed25519_scalar_mul(k, a))
    return point + s


class SeenRpc(SimRpc):
    """Every node would refuse a wrong signature; here it is a broken promise."""

    world: SignerWorld

    async def ask(self, index: int | None, method: str, asked: Any, timeout_s: float, group: str) -> Any:
        if method in ("broadcast_tx_async", "send_tx"):
            raw = b64decode(asked["signed_tx_base64"] if isinstance(asked, dict) else asked[0])
            self.world.check_sent(raw)
        return await super().ask(index, method, asked, timeout_s, group)


class SignerWorld(World):
    def __init__(self, plan: Plan, loop: VirtualLoop, history: History) -> None:
        super().__init__(plan, loop, history)
        dice = random.Random(f"forbidden:{plan.seed}")
        self.forbidden = {1000 + n for n in range(plan.intents) if dice.random() < 0.15}
        self.moods = Moods(plan.seed, lambda: not self.faults.on, self._forbids)
        SeenRpc.world = self  # one schedule at a time
        self.nodes_seen = SeenRpc

    def _forbids(self, unsigned: bytes) -> bool:
        return any(b"\x03" + amount.to_bytes(16, "little") in unsigned for amount in self.forbidden)

    def keys(self, lanes: list[str]) -> dict[str, Signer]:
        made: dict[str, Signer] = {}
        for lane, signer in zip(lanes, SIGNERS, strict=False):
            made[lane] = RandomSigner(
                signer.public_key, lambda digest, dice, key=signer: other_signature(key, digest, dice), self.moods
            )
        return made

    def check_sent(self, raw: bytes) -> None:
        unsigned, signature = raw[:-65], raw[-64:]
        digest = sha256(unsigned).digest()
        if not any(check_ed25519(signer.public_bytes, digest, signature) for signer in SIGNERS):
            self.history.note(Broke(self.loop.time(), "a signature of nobody was sent"))
        if self._forbids(unsigned):
            self.history.note(Broke(self.loop.time(), "what the signer forbids was sent"))

    async def _operate(self, healed_for_s: float) -> None:
        for lane, store in list(self.ledger.stores.items()):
            if store.state is LaneState.QUARANTINED and store.cause is QuarantineCause.BAD_SIGNATURE:
                await self.ledger.set_lane(lane, LaneState.PAUSED, command=LaneCommand.TRIAL)
        await super()._operate(healed_for_s)

    def judge_refusals(self) -> list[str]:
        """Who was refused, and only they, ended so; nothing of them was written ahead."""
        amounts = {intent.id: 1000 + n for n, intent in enumerate(self.intents)}
        found = []
        for fact in self.history.facts:
            if isinstance(fact, Recorded) and amounts[fact.id] in self.forbidden:
                found.append(f"{fact.id.key} was written ahead, and the signer forbids it")
            if isinstance(fact, Ended) and (error := fact.outcome.error) is not None:
                refused = error.get("code") == "transaction_refused"
                if refused and amounts[fact.id] not in self.forbidden:
                    found.append(f"{fact.id.key} failed for what the signer refused to somebody else")
        return found


def run(seed: int, *, verbose: bool = False) -> Result:
    result = run_world(draw(seed), verbose=verbose, kind=SignerWorld)
    result.violations.extend(SeenRpc.world.judge_refusals())
    return result


def struck() -> Any:
    """In the schedule that ran last."""
    return SeenRpc.world.moods.struck
