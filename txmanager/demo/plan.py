"""Who asks for what: every account once, some of them again from another process, in an order that a seed fixes."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for an account; the key that makes it a retry is derived from the name and the public key."""

    name: str
    public_key: str


PUBLIC_KEY = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"


def make_plan(
    accounts: int, duplicates: int, clients: int, parent: str, rng: random.Random, mark: str = ""
) -> list[list[Ask]]:
    """What each client process asks for. A retry always comes from another process than the first request. A `mark`
    in the names tells one run from another on a chain that keeps them."""
    asks = [Ask(f"user-{mark}{n}.{parent}", PUBLIC_KEY) for n in range(accounts)]
    plans: list[list[Ask]] = [asks[n::clients] for n in range(clients)]
    again: list[list[Ask]] = [[] for _ in range(clients)]
    for n in rng.sample(range(accounts), duplicates):
        other = (n % clients + rng.randrange(1, clients)) % clients if clients > 1 else 0
        again[other].append(asks[n])
    for own, extra in zip(plans, again, strict=True):
        for ask in extra:
            # Anywhere: some retries race their first request, some come long after its outcome.
            own.insert(rng.randrange(len(own) + 1), ask)
    return plans
