"""What a seal costs: `python -m bench.seal` prints microseconds per intent, to make one and to check one."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from functools import partial

from txmanager.core.models import new_intent
from txmanager.runtime.lane.sealing import make_seals

LANE = "near:mainnet:relayer.near:ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
PAYLOADS = {
    "near.create_account": {
        "new_account_id": "alice.relayer.near",
        "public_key": "ed25519:9AhWenZ3JddamBoyMqnTbp7yVbRuvqAv3zwfrWgfVRJE",
        "amount": "100000000000000000000000",
    },
    "near.delegate (2 kB)": {"signed_delegate": "A" * 2048},
    "evm.call": {"to": "0x" + "ab" * 20, "value": "1000000000000000000", "data": "0x" + "cd" * 68},
}


def main(rounds: int = 2_000) -> None:
    seals = make_seals(["s" * 64, "o" * 64])
    for name, payload in PAYLOADS.items():
        intent = new_intent(key="create:alice.relayer.near:ed25519:9AhWenZ3", pool="relayer", kind="k", payload=payload)
        whole = (intent, "0123456789abcdef", LANE)
        made = _us(partial(seals.seal, *whole), rounds)
        held = _us(partial(seals.check, *whole, seals.seal(*whole)), rounds)
        print(f"{name:<22} seal {made:4.1f} us   check {held:4.1f} us")


def _us(work: Callable[[], object], rounds: int) -> float:
    return min(timeit.repeat(work, number=rounds, repeat=40, timer=time.process_time)) / rounds * 1e6


if __name__ == "__main__":
    main()
