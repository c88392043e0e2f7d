"""`txmanager keys renew`: a new key in place of one whose allowance runs out. Safe to run again at any point.

The secret is in a file before the chain has the key. The old lane is drained only when a worker serves the new one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from txmanager.cli.access import note
from txmanager.cli.books import Books
from txmanager.cli.options import ConfigFile
from txmanager.cli.pool_keys import check_unused, ensure, one_key
from txmanager.core.errors import InvalidInput, NotAllowed, NotFound
from txmanager.core.states import LaneState
from txmanager.settings import Settings, load
from txmanager.settings.family import AnyHeld, CallLimits


def renew(
    pool: Annotated[str, typer.Argument(help="The pool that the old key serves.")],
    lane: Annotated[str, typer.Argument(help="The lane of the old key, as `txmanager lanes` shows it.")],
    vault_file: Annotated[Path, typer.Option("--vault", help="An encrypted file for the new key alone.")],
    signer: Annotated[str, typer.Option(help="Where a full-access key of the account is that no worker uses.")],
    allowance: Annotated[
        str | None, typer.Option(help="What the new key may spend on fees, in the chain's smallest unit.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Make a key with the old one's limits, put it on the chain, and drain the old lane once the new one is served.

    Run it, add the new key to `keys`, restart the workers one by one, and run it again: then it drains the old lane.
    """
    settings = load(config)
    chosen = settings.pools.get(pool)
    if chosen is None or chosen.account is None or settings.family(chosen.network).key_limits is None:
        raise NotFound(f"the configuration has no pool {pool!r} whose keys have limits of their own")
    if allowance is not None and not (allowance.isascii() and allowance.isdigit()):
        raise InvalidInput("--allowance", f"must be a whole number of {settings.family(chosen.network).unit.smallest}")
    names = ensure(vault_file, chosen.account, 1)
    source = f"vault:{vault_file}"
    new, held = one_key(settings, pool, source)
    if len(names) != 1 or new == lane:
        raise InvalidInput("--vault", "must be a new file: it is for the new key alone")
    by = one_key(settings, pool, signer)
    served = asyncio.run(_renew(settings, lane, new, held, by, int(allowance) if allowance else None))
    if not served:
        typer.echo(f'add "{source}" to keys of [pools.{pool}], restart the workers one by one, and run this again')
        return
    typer.echo(f"{lane} is draining; when it is empty: txmanager lanes close {lane}, and take its key out of keys")


async def _renew(
    settings: Settings, old: str, new: str, held: AnyHeld, by: tuple[str, AnyHeld], allowance: int | None
) -> bool:
    """Whether the new lane is served, and the old one drained."""
    family, network = settings.family(held.pool.network), settings.networks[held.pool.network]
    chain = family.open_chain(held.pool.network, network, {new: held, by[0]: by[1]})
    assert family.add_keys is not None
    assert family.key_limits is not None
    try:
        limits = await family.key_limits(chain, old)
        if limits is None:
            raise NotAllowed(f"{old} has full access and no allowance: there is nothing to renew")
        if allowance is None:
            raise InvalidInput("--allowance", f"is required: the old key has {limits[2]} left of its own")
        wanted: CallLimits = (limits[0], limits[1], allowance)
        await chain.trial(new)
        await check_unused(settings, by[0])
        await check_unused(settings, new, new=True)
        assert held.signer is not None
        await family.add_keys(chain, by[0], [held.signer.public_key], wanted, Books(settings, held.pool_name))
    finally:
        await chain.close()
    return await _drain(settings, old, new)


async def _drain(settings: Settings, old: str, new: str) -> bool:
    from txmanager.runtime.manager import TxManager
    from txmanager.wiring import open_ledger

    opened = await open_ledger(settings)
    try:
        manager = TxManager(opened)
        lanes = {one.id: one for one in await manager.lanes()}
        if new not in lanes or lanes[new].lease_ms <= 0 or lanes[new].state is not LaneState.ACTIVE:
            return False
        if old in lanes and lanes[old].state not in (LaneState.DRAINING, LaneState.CLOSED):
            await note(manager, "keys renew", old, details=new)
            await manager.drain(old)
        return True
    finally:
        await opened.close()
