"""`txmanager submit|show|cancel|resolve|reseal`: one intent, from asking for it to deciding about it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import typer

from txmanager.cli.access import confirm, find_record, note, operator, with_manager
from txmanager.cli.api import ApiToken, ApiUrl, find_api
from txmanager.cli.options import ConfigFile, Key, Pool, Tenant, Yes
from txmanager.cli.submit_file import submit_file
from txmanager.core.errors import InvalidInput, NotAllowed, TxManagerError, Unavailable
from txmanager.core.models import Record
from txmanager.settings import Settings

if TYPE_CHECKING:
    from txmanager.runtime.manager import TxManager


def submit(
    kind: Annotated[str | None, typer.Argument(help="The kind of intent: CHAIN.KIND.")] = None,
    payload: Annotated[str | None, typer.Argument(help="JSON, @FILE, or - for stdin.")] = None,
    key: Annotated[str | None, typer.Option(help="The idempotency key; some kinds derive one.")] = None,
    pool: Annotated[str | None, typer.Option(help="The pool; needed when there are several.")] = None,
    wait: Annotated[float, typer.Option(min=0, max=600, help="Seconds to wait for the outcome.")] = 30.0,
    file: Annotated[
        Path | None, typer.Option(help="Submit every line of this file (NDJSON): an intent, or with KIND a payload.")
    ] = None,
    refused: Annotated[
        Path | None, typer.Option(help="--file: where to write lines that are refused.", show_default="FILE.refused")
    ] = None,
    url: ApiUrl = None,
    token: ApiToken = None,
    config: ConfigFile = None,
) -> None:
    """Submit an intent over the API and print its record. Repeating it with the same key returns the same record.

    With --file, submit many without waiting for their outcomes. A line has its own "idempotency_key", or gets one from
    its number and content: after Ctrl-C, run the same command again. Exit code 0: all were accepted, now or before;
    1: some were refused; 2: no API, or a wrong option; 130: interrupted.

    Example: txmanager submit --pool relayer --file accounts.ndjson
    """
    if file is not None:
        if payload is not None or key is not None:
            raise InvalidInput("--file", "takes neither a payload nor --key: its lines have them")
        submit_file(file, *find_api(url, token, config), kind, pool, refused)
        return
    if kind is None or payload is None:
        raise InvalidInput("KIND and PAYLOAD", "are needed, or --file")
    body: dict[str, Any] = {"kind": kind, "payload": _payload(payload)}
    if pool is not None:
        body["pool"] = pool
    url, token = find_api(url, token, config)
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if key is not None:
        headers["Idempotency-Key"] = key
    until = time.monotonic() + wait
    while True:
        left = max(0.0, until - time.monotonic())
        status, answered, record = _post(f"{url}/v1/intents?wait={left:g}", body, headers)
        pause = float(answered.get("Retry-After") or 1)
        # Busy or away for a moment: the same key again, as every client may.
        if status not in (429, 503) or left <= pause:
            break
        time.sleep(pause)
    if status >= 400:
        raise _Answer(status, record)
    if answered.get("Idempotency-Replayed") == "true":
        typer.echo("this key was accepted before; this is its stored record", err=True)
    typer.echo(json.dumps(record, indent=2))
    if record["status"] == "failed":
        raise typer.Exit(1)


class _Answer(TxManagerError):
    """A problem the API answered with, in its own words."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        detail = problem.get("detail") or problem.get("title") or "no reason given"
        field = problem.get("field")
        super().__init__(f"{f'{field}: ' if field else ''}{detail} (status {status})")


def _payload(text: str) -> dict[str, Any]:
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text()
        value = json.loads(text)
    except OSError as error:
        raise InvalidInput("PAYLOAD", f"cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput("PAYLOAD", f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput("PAYLOAD", "must be a JSON object")
    return value


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, Message, Any]:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput("--url", "must start with http:// or https://")
    request = Request(url, json.dumps(body).encode(), dict(headers))
    try:
        with urlopen(request, timeout=620) as reply:
            return reply.status, reply.headers, json.load(reply)
    except HTTPError as error:
        try:
            return error.code, error.headers, json.loads(error.read())
        except ValueError:
            return error.code, error.headers, {"detail": error.reason}
    except (URLError, OSError) as error:
        why = getattr(error, "reason", error)
        raise Unavailable(
            f"cannot reach the API at {url.partition('/v1/')[0]}: {why}; is `txmanager up` running?"
        ) from None


def show(
    key: Key,
    pool: Pool = None,
    tenant: Tenant = "default",
    config: ConfigFile = None,
) -> None:
    """Print an intent's record as JSON."""

    async def read(manager: TxManager, settings: Settings) -> Record:
        return await find_record(manager, settings, key, pool, tenant)

    _print(with_manager(config, read))


def cancel(key: Key, pool: Pool = None, tenant: Tenant = "default", config: ConfigFile = None) -> None:
    """Cancel an intent. If it is already signed, a no-op replaces it, unless it lands first."""

    async def work(manager: TxManager, settings: Settings) -> Record:
        record = await find_record(manager, settings, key, pool, tenant)
        await note(manager, "cancel", str(record.id), tenant)
        return await manager.cancel(record.id)

    _print(with_manager(config, work))


def resolve(
    key: Key,
    verb: Annotated[str, typer.Argument(help="track, settle, kill, resign or fail.")],
    tx_hash: Annotated[str | None, typer.Option("--hash", help="settle: the transaction that carried it out.")] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="resign, fail: skip the proof that the old transaction is dead. This may pay twice."
        ),
    ] = False,
    yes: Yes = False,
    pool: Pool = None,
    tenant: Tenant = "default",
    config: ConfigFile = None,
) -> None:
    """Resolve a held intent. The lane's owner carries it out after the necessary proof.

    track: look up its transactions again. settle --hash: this transaction carried it out (verified on chain).
    kill, fail: replace it by a no-op, prove that nothing landed, then fail it. resign: sign it again, once the old
    transaction is proven dead.
    """
    if force:
        confirm(
            f"Without proof, the old transaction of {key!r} may still land and take effect twice. Continue?",
            yes,
        )

    async def work(manager: TxManager, settings: Settings) -> Record:
        record = await find_record(manager, settings, key, pool, tenant)
        await note(
            manager, "resolve", str(record.id), tenant, " ".join([verb, tx_hash or "", "--force" * force]).strip()
        )
        if record.status.final:
            raise NotAllowed(f"the intent is {record.status}, which is final; there is nothing to resolve")
        return await manager.resolve(record.id, verb, operator(), tx_hash=tx_hash, force=force)

    _print(with_manager(config, work))


def reseal(
    key: Key, yes: Yes = False, pool: Pool = None, tenant: Tenant = "default", config: ConfigFile = None
) -> None:
    """Approve an intent that is held because of a wrong seal. The shown content is what will be signed.

    An intent that was set aside goes to the end of its lane's queue. One that was signed before is in flight again.
    To reject it, cancel it instead.
    """

    async def work(manager: TxManager, settings: Settings) -> Record:
        record = await find_record(manager, settings, key, pool, tenant)
        shown = {"kind": record.intent.kind, "lane": record.lane, "limits": record.intent.limits}
        typer.echo(json.dumps({**shown, "payload": record.intent.payload, "hold": record.hold}, indent=2), err=True)
        confirm("This is what will be signed. Is it what the caller asked for?", yes)
        await note(manager, "reseal", str(record.id), tenant)
        return await manager.reseal(record.id)

    _print(with_manager(config, work))


def _print(record: Record) -> None:
    from txmanager.api.records import record_json

    text = json.dumps(record_json(record), indent=2, default=str)
    typer.echo(text)
