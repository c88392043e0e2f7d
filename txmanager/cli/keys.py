"""`txmanager keys`: which keys the pools have and what the chain says of them, and how to get more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from txmanager.cli.options import ConfigFile
from txmanager.core.errors import InvalidInput, InvalidSettings, NotFound, Unavailable
from txmanager.settings import PoolSettings, Settings, load
from txmanager.settings.secrets import reveal
from txmanager.signing import Ed25519Signer, Secret, vault
from txmanager.signing.sources import KEY_SOURCES, PASSPHRASE_VARIABLE, Asked, Curve

if TYPE_CHECKING:
    from txmanager.chains.near import NearChain
    from txmanager.signing.signer import Signer

app = typer.Typer(help="The pools' signing keys: list them, add more.", no_args_is_help=True)


@app.command("list")
def list_keys(config: ConfigFile = None) -> None:
    """Every key of every NEAR pool: its lane, its next nonce and what it can spend. Prints no secret."""
    settings = load(config)
    pools = {name: pool for name, pool in settings.pools.items() if settings.networks[pool.network].chain == "near"}
    if not pools:
        raise NotFound("the configuration has no NEAR pool")
    missing = asyncio.run(_list(settings, pools))
    if missing:
        raise typer.Exit(1)


@app.command()
def provision(
    pool: Annotated[str, typer.Argument(help="The pool whose account gets the keys.")],
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many keys the file holds in the end.")],
    vault_file: Annotated[Path, typer.Option("--vault", help="The encrypted file the new keys are kept in.")],
    signer: Annotated[
        str, typer.Option(help="Where the account's full-access key is: file:PATH, env:NAME or vault:PATH.")
    ],
    receiver: Annotated[
        str | None, typer.Option(help="Make function-call keys that can only call this contract.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="... and only these methods (repeat the option).")] = None,
    allowance: Annotated[str | None, typer.Option(help="... with this much gas money in yoctoNEAR.")] = None,
    config: ConfigFile = None,
) -> None:
    """Add access keys to a pool's account until COUNT are in the file and on the chain. Run it again if it stops.

    The signing key must not serve a running worker: a lane whose key is used by others is quarantined.
    """
    settings = load(config)
    chosen = settings.pools.get(pool)
    if chosen is None or settings.networks[chosen.network].chain != "near" or chosen.account is None:
        raise NotFound(f"the configuration has no NEAR pool {pool!r}")
    if receiver is None and (method or allowance):
        raise InvalidInput("--receiver", "is required with --method and --allowance")
    if allowance is not None and not (allowance.isascii() and allowance.isdigit()):
        raise InvalidInput("--allowance", "must be a whole number of yoctoNEAR")
    keys = KEY_SOURCES.load(signer, Asked(Curve.ED25519, chosen.account))
    # First the file, then the chain: a key that was added is never one that nobody holds.
    names = _ensure(vault_file, chosen.account, count)
    typer.echo(f"{vault_file} holds {len(names)} keys of {chosen.account}")
    limits = None if receiver is None else (receiver, tuple(method or ()), int(allowance) if allowance else None)
    asyncio.run(_provision(settings, chosen, keys[0].signer, names, limits))
    typer.echo(f'all {len(names)} are on the chain; use them with keys = ["vault:{vault_file}"] in [pools.{pool}]')


async def _list(settings: Settings, pools: Mapping[str, PoolSettings]) -> int:
    missing = 0
    for name, pool in pools.items():
        signers: dict[str, Signer] = {}
        for source in pool.keys:
            for found in KEY_SOURCES.load(source, Asked(Curve.ED25519, pool.account)):
                signers[f"near:{pool.network}:{found.account}:{found.signer.public_key}"] = found.signer
        chain = _chain(settings, pool, signers)
        try:
            for lane in signers:
                missing += await _show(chain, name, lane)
        finally:
            await chain.close()
    return missing


async def _show(chain: NearChain, pool: str, lane: str) -> int:
    from txmanager.core.errors import KeyMissing

    try:
        view = await chain.nonce(lane)
    except KeyMissing:
        typer.echo(f"{pool}  {lane}  MISSING on the chain (add it with `txmanager keys provision`)")
        return 1
    except Unavailable as error:
        typer.echo(f"{pool}  {lane}  unknown: {error}")
        return 1
    typer.echo(f"{pool}  {lane}  next nonce {view.next_nonce}  can spend {view.balance} yoctoNEAR")
    return 0


async def _provision(
    settings: Settings,
    pool: PoolSettings,
    signer: Signer,
    names: list[str],
    limits: tuple[str, tuple[str, ...], int | None] | None,
) -> None:
    from txmanager.chains.near.actions import CallPermission
    from txmanager.chains.near.provision import provision

    lane = f"near:{pool.network}:{pool.account}:{signer.public_key}"
    chain = _chain(settings, pool, {lane: signer})
    try:
        permission = CallPermission(*limits) if limits is not None else None
        await provision(chain, lane, names, permission, report=typer.echo)
    finally:
        await chain.close()


def _chain(settings: Settings, pool: PoolSettings, signers: dict[str, Signer]) -> NearChain:
    # Imported here: `--help` should not wait for the chain's libraries.
    from txmanager.chains.near import NearChain
    from txmanager.rpc import Endpoint

    told: Any = settings.networks[pool.network].rpc
    endpoints = [
        Endpoint(reveal(f"networks.{pool.network}.rpc[{n}].url", rpc.url), direct=rpc.direct)
        for n, rpc in enumerate(told)
    ]
    return NearChain(pool.network, endpoints, signers)


def _ensure(path: Path, account: str, count: int) -> list[str]:
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
