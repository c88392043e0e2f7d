"""What commands about keys share: one key of a source, whether it is in use, and the file that keeps new ones."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from txmanager.core.errors import InvalidInput, InvalidSettings, NotAllowed
from txmanager.core.states import LaneState
from txmanager.settings import Settings
from txmanager.settings.family import AnyHeld, Held
from txmanager.signing import Ed25519Signer, Secret, vault
from txmanager.signing.sources import PASSPHRASE_VARIABLE


def one_key(settings: Settings, pool: str, source: str) -> tuple[str, AnyHeld]:
    from txmanager.wiring import key_sources

    chosen = settings.pools[pool]
    network, alone = settings.networks[chosen.network], chosen.model_copy(update={"keys": (source,)})
    found = list(settings.family(chosen.network).load_keys(key_sources(settings), chosen.network, network, alone))
    if len(found) != 1:
        raise InvalidInput("source", f"{source!r} holds {len(found)} keys; name one")
    [(lane, key)] = found
    return lane, Held(pool, alone, key)


async def check_unused(settings: Settings, lane: str, *, new: bool = False) -> None:
    """A key that a worker uses must not be used beside it; and a closed lane's key never serves again."""
    from txmanager.runtime.manager import TxManager
    from txmanager.wiring import open_ledger

    opened = await open_ledger(settings)
    try:
        found = {one.id: one for one in await TxManager(opened).lanes()}.get(lane)
    finally:
        await opened.close()
    if found is None:
        return
    if new and found.state is LaneState.CLOSED:
        raise NotAllowed(f"{lane} was closed, and never opens again; make another key")
    if not new and found.lease_ms > 0:
        raise NotAllowed(f"{lane} is served by {found.owner}; sign with a key that no worker uses, or stop the worker")


def ensure(path: Path, account: str, count: int) -> list[str]:
    """The public keys of the account in the file, after making the file hold `count` of them."""
    passphrase = _passphrase(new=not path.exists())
    kept = vault.load(path, passphrase) if path.exists() else []
    mine = [signer for owner, signer in kept if owner == account]
    fresh = [Ed25519Signer.generate() for _ in range(count - len(mine))]
    if fresh:
        vault.save(path, passphrase, [*kept, *((account, signer) for signer in fresh)])
    return [signer.public_key for signer in (*mine, *fresh)][: max(count, 0)]


def _passphrase(new: bool) -> Secret:
    given = os.environ.get(PASSPHRASE_VARIABLE)
    if given:
        return Secret(given)
    try:
        return Secret(typer.prompt("Passphrase of the key file", hide_input=True, confirmation_prompt=new))
    except typer.Abort:
        raise InvalidSettings("passphrase", f"is needed; set {PASSPHRASE_VARIABLE} where nobody can type it") from None
