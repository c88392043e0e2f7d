"""`txmanager keys`: which keys the pools have and what the chain says of them, and how to get more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from txmanager.cli.books import Books
from txmanager.cli.options import ConfigFile
from txmanager.cli.pool_keys import check_unused, ensure, one_key
from txmanager.cli.renew import renew
from txmanager.core.chain import Chain
from txmanager.core.errors import InvalidInput, KeyMissing, NotFound, Unavailable
from txmanager.settings import Settings, load
from txmanager.settings.family import AnyHeld, CallLimits, GasKeys, Held, Unit

app = typer.Typer(help="The pools' signing keys: list them, add more.", no_args_is_help=True)
app.command()(renew)


@app.command("list")
def list_keys(config: ConfigFile = None) -> None:
    """List every key of every pool with its lane, next nonce and balance. Prints no secrets."""
    settings = load(config)
    if not any(pool.keys for pool in settings.pools.values()):
        raise NotFound("the configuration has no pool with keys")
    missing = asyncio.run(_list(settings))
    if missing:
        raise typer.Exit(1)


@app.command()
def provision(
    pool: Annotated[str, typer.Argument(help="The pool whose account gets the keys.")],
    vault_file: Annotated[Path, typer.Option("--vault", help="The encrypted file for the new keys.")],
    signer: Annotated[
        str, typer.Option(help="Where the account's full-access key is: file:PATH, env:NAME or vault:PATH.")
    ],
    count: Annotated[
        int | None, typer.Option(min=1, max=1000, help="The number of keys that the file should have (a gas key: 1).")
    ] = None,
    gas_key: Annotated[bool, typer.Option("--gas-key", help="Create a gas key: one key with many lanes.")] = False,
    lanes: Annotated[int, typer.Option(min=1, max=1024, help="Number of lanes of the gas key.")] = 1,
    fund: Annotated[
        str, typer.Option(help="Fill the gas key's balance up to this amount; run it again to top it up.")
    ] = "0",
    receiver: Annotated[
        str | None, typer.Option(help="Create function-call keys that can only call this contract.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Allow only these methods (repeat the option).")] = None,
    allowance: Annotated[str | None, typer.Option(help="Allowance for fees, in the chain's smallest unit.")] = None,
    config: ConfigFile = None,
) -> None:
    """Add access keys to a pool's account until COUNT are in the file and on chain. If it stops, run it again.

    The signing key must not be used by a running worker: a lane is quarantined if others use its key.
    """
    from txmanager.wiring import key_sources

    settings = load(config)
    chosen = settings.pools.get(pool)
    if chosen is None or chosen.account is None or settings.family(chosen.network).add_keys is None:
        raise NotFound(f"the configuration has no pool {pool!r} whose account can have more keys")
    family = settings.family(chosen.network)
    if gas_key and family.add_gas_keys is None:
        raise NotFound(f"{family.title} has no gas keys")
    if count is None and not gas_key:
        raise InvalidInput("--count", "is required: the number of keys that the file should have")
    if not gas_key and (lanes != 1 or fund != "0"):
        raise InvalidInput("--gas-key", "is required with --lanes and --fund")
    if gas_key and allowance:
        raise InvalidInput("--allowance", "a gas key has no allowance; it uses its own balance (--fund)")
    gas_keys = GasKeys(lanes, _coins(fund, family.unit)) if gas_key else None
    limits = _limits(receiver, method, allowance, family.unit)
    network, signing = settings.networks[chosen.network], chosen.model_copy(update={"keys": (signer,)})
    [(lane, key), *_] = settings.family(chosen.network).load_keys(
        key_sources(settings), chosen.network, network, signing
    )
    # First the file, then the chain: a key that was added is never one that nobody holds.
    names = ensure(vault_file, chosen.account, count or 1)
    typer.echo(f"{vault_file} holds {len(names)} keys of {chosen.account}")
    asyncio.run(_provision(settings, lane, Held(pool, signing, key), names, limits, gas_keys))
    entry = f'"vault:{vault_file}"'
    if gas_key:
        entry = f"{{ source = {entry}, gas_key = true, lanes = {lanes} }}"
    typer.echo(f"all {len(names)} are on chain; use them with keys = [{entry}] in [pools.{pool}]")


@app.command()
def adopt(
    pool: Annotated[str, typer.Argument(help="The pool that will use the key.")],
    source: Annotated[
        str, typer.Argument(help="The key, as you would write it in `keys` of the pool: hsm:LABEL, box:NAME.")
    ],
    signer: Annotated[
        str | None,
        typer.Option(help="Where a full-access key of the account is that no worker uses: file:PATH, hsm:LABEL, ..."),
    ] = None,
    receiver: Annotated[
        str | None, typer.Option(help="Add it as a function-call key that can only call this contract.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Allow only these methods (repeat the option).")] = None,
    allowance: Annotated[str | None, typer.Option(help="Allowance for fees, in the chain's smallest unit.")] = None,
    config: ConfigFile = None,
) -> None:
    """Add a key to a pool without access to its secret: try it, put it on chain, check it. If it stops,
    run it again.

    No intent is routed to it before a worker has it in `keys`. docs/signers.md describes a whole rotation.
    """
    settings = load(config)
    chosen = settings.pools.get(pool)
    if chosen is None:
        raise NotFound(f"the configuration has no pool {pool!r}")
    family = settings.family(chosen.network)
    lane, held = one_key(settings, pool, source)
    limits = _limits(receiver, method, allowance, family.unit)
    if family.add_keys is None and (signer is not None or limits is not None):
        raise InvalidInput("--signer", f"does not apply to {family.title}, where each key is its own account")
    if family.add_keys is not None and signer is None:
        raise InvalidInput("--signer", "is required: a full-access key of the account signs for the new one")
    asyncio.run(_adopt(settings, lane, held, one_key(settings, pool, signer) if signer is not None else None, limits))
    typer.echo(f'add "{source}" to keys of [pools.{pool}] and restart the workers one by one')


def _limits(receiver: str | None, method: list[str] | None, allowance: str | None, unit: Unit) -> CallLimits | None:
    if receiver is None and (method or allowance):
        raise InvalidInput("--receiver", "is required with --method and --allowance")
    if allowance is not None and not (allowance.isascii() and allowance.isdigit()):
        raise InvalidInput("--allowance", f"must be a whole number of {unit.smallest}")
    return None if receiver is None else (receiver, tuple(method or ()), int(allowance) if allowance else None)


async def _adopt(
    settings: Settings, lane: str, held: AnyHeld, by: tuple[str, AnyHeld] | None, limits: CallLimits | None
) -> None:
    family, network = settings.family(held.pool.network), settings.networks[held.pool.network]
    lanes = {lane: held} if by is None else {lane: held, by[0]: by[1]}
    chain = family.open_chain(held.pool.network, network, lanes)
    try:
        await chain.trial(lane)
        typer.echo(f"{lane} signs: a trial signature was verified")
        if by is not None and family.add_keys is not None:
            await check_unused(settings, by[0])
            assert held.signer is not None
            await family.add_keys(chain, by[0], [held.signer.public_key], limits, Books(settings, by[1].pool_name))
        await check_unused(settings, lane, new=True)
        if await _show(chain, held.pool_name, lane, family.unit.smallest):
            raise NotFound(f"{lane} cannot be read from the chain; run the command again")
    finally:
        await chain.close()


async def _list(settings: Settings) -> int:
    # Imported here: `--help` should not wait for the adapters' libraries.
    from txmanager.wiring import build_services

    services, chains = build_services(settings)
    missing = 0
    try:
        for lane, service in services.items():
            if not service.spec.keyless:
                unit = settings.family(settings.pools[service.spec.pool].network).unit
                missing += await _show(service.chain, service.spec.pool, lane, unit.smallest)
    finally:
        for chain in chains:
            await chain.close()
    return missing


async def _show(chain: Chain, pool: str, lane: str, unit: str) -> int:
    try:
        view = await chain.nonce(lane)
    except KeyMissing:
        typer.echo(f"{pool}  {lane}  MISSING on chain (add it with `txmanager keys provision`)")
        return 1
    except Unavailable as error:
        typer.echo(f"{pool}  {lane}  unknown: {error}")
        return 1
    typer.echo(f"{pool}  {lane}  next nonce {view.next_nonce}  can spend {view.balance} {unit}")
    return 0


def _coins(text: str, unit: Unit) -> int:
    whole, _, part = text.partition(".")
    if not (text.isascii() and whole.isdigit() and (part or "0").isdigit() and len(part) <= unit.decimals):
        raise InvalidInput("--fund", f"must be a number of {unit.coin or unit.smallest}, for example 1 or 0.5")
    return int(whole + part.ljust(unit.decimals, "0"))


async def _provision(
    settings: Settings,
    lane: str,
    held: AnyHeld,
    names: list[str],
    limits: CallLimits | None,
    gas_keys: GasKeys | None,
) -> None:
    family = settings.family(held.pool.network)
    assert family.add_keys is not None
    chain = family.open_chain(held.pool.network, settings.networks[held.pool.network], {lane: held})
    books = Books(settings, held.pool_name)
    try:
        if gas_keys is not None and family.add_gas_keys is not None:
            await family.add_gas_keys(chain, lane, names, gas_keys, limits, books)
        else:
            await family.add_keys(chain, lane, names, limits, books)
    finally:
        await chain.close()
