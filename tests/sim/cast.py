"""Who takes part in a schedule: the accounts and keys of the chain, the lanes made of them, and the workers' places."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.loop import Process
from txmanager.chains.near import LaneId, PublicKey
from txmanager.devnet.genesis import Genesis
from txmanager.runtime.lane.worker import Worker
from txmanager.signing import Ed25519Signer, Secret

POOL = "pool"
EPOCH_MS = 1_700_000_000_000
_KEYS = 5
GENESIS = Genesis.from_seed(0, accounts=3, keys=_KEYS)
RELAYER, RECEIVER, FUNDER = GENESIS.users
SIGNERS = [Ed25519Signer.parse(Secret(pair.private_key)) for pair in RELAYER.keys]
LANES = [str(LaneId("sim", RELAYER.account_id, PublicKey.parse(s.public_key))) for s in SIGNERS[:-1]]
ADMIN = SIGNERS[-1]
"""A key of the relayer that is no lane."""
SIGNER_OF_FUNDER = FUNDER.keys[0].public_key


@dataclass(slots=True)
class Seat:
    """A worker's place: who sits there changes with every restart."""

    number: int
    generation: int = 0
    process: Process | None = None
    worker: Worker | None = None
    closed_until: float = 0.0
