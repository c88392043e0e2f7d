"""`keys renew`: a function-call key whose allowance runs out is replaced, without a moment without a lane."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.api.stage import Program
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import make_chain
from tests.waiting import until
from txmanager.chains.near.actions import CallPermission
from txmanager.chains.near.provision import provision
from txmanager.cli import app
from txmanager.core.states import LaneState
from txmanager.ledger.redis import RedisLedger
from txmanager.signing.ed25519 import Ed25519Signer

ALLOWANCE = 10**24
METHODS = ("ping", "pong")


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(accounts=4, keys=2, block_ms=100) as running:
        yield running


def permission(devnet: Devnet, account_id: str, key: str) -> Any:
    told = {"request_type": "view_access_key", "finality": "final", "account_id": account_id, "public_key": key}
    return devnet.rpc("query", told)["permission"]


async def test_a_key_is_renewed_with_its_limits_and_the_old_lane_drains_once_the_new_one_is_served(
    redis7: HasUrl, devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXMANAGER_PASSPHRASE", "a long passphrase for tests")
    account, old_key = devnet.account(1), Ed25519Signer.generate()
    name, prefix = account["account_id"], f"t{secrets.token_hex(6)}"
    chain = make_chain(devnet.url, [account])
    limits = CallPermission(devnet.account(2)["account_id"], METHODS, 5 * 10**22)
    await provision(chain, f"near:localnet:{name}:{account['public_key']}", [old_key.public_key], limits)
    await chain.close()
    (tmp_path / "admin.json").write_text(json.dumps(account))
    monkeypatch.setenv("OLD_KEY", old_key.export().reveal().decode())
    old = f"near:localnet:{name}:{old_key.public_key}"

    def write(*keys: str) -> Path:
        path = tmp_path / f"{len(keys)}.toml"
        path.write_text(
            f'[ledger]\nurl = "{redis7.url}"\nprefix = "{prefix}"\n'
            f'[networks.localnet]\nchain = "near"\nrpc = [{{ url = "{devnet.url}", direct = true }}]\n'
            f'[pools.main]\nnetwork = "localnet"\naccount = "{name}"\nkeys = {json.dumps(keys)}\n'
            "[worker]\nlease_s = 1.0\n"
        )
        return path

    async def renew(config: Path, *more: str, lane: str = old) -> Any:
        told = ["keys", "renew", "main", lane, "--vault", str(tmp_path / "new.json")]
        told += ["--signer", f"file:{tmp_path}/admin.json", "--config", str(config), *more]
        return await asyncio.to_thread(CliRunner().invoke, app, told)

    ledger = RedisLedger(redis7.url, prefix=prefix)
    first, second = write("env:OLD_KEY"), write("env:OLD_KEY", f"vault:{tmp_path}/new.json")
    worker = Program("lanes", first).start()
    try:

        async def state(lane: str) -> LaneState | None:
            found = await ledger.lane(lane)
            return found.state if found is not None and found.lease_ms > 0 else None

        async def served(lane: str) -> bool:
            return await state(lane) is not None

        await until(lambda: served(old), 30, what="the old lane is served")
        refused = await renew(first)
        assert "--allowance" in str(refused.exception)
        full = await renew(first, "--allowance", str(ALLOWANCE), lane=f"near:localnet:{name}:{account['public_key']}")
        assert "nothing to renew" in str(full.exception)
        for _ in range(2):  # the second run finds the key of the first
            told = await renew(first, "--allowance", str(ALLOWANCE))
            assert told.exit_code == 0, (told.output, told.exception)
            assert "restart the workers" in told.output
        assert await state(old) is LaneState.ACTIVE, "nobody serves the new key yet"
        [new] = [
            key["public_key"]
            for key in devnet.rpc(
                "query", {"request_type": "view_access_key_list", "finality": "final", "account_id": name}
            )["keys"]
            if isinstance(key["access_key"]["permission"], dict) and key["public_key"] != old_key.public_key
        ]
        call = permission(devnet, name, new)["FunctionCall"]
        assert (call["receiver_id"], tuple(call["method_names"])) == (limits.receiver_id, METHODS)
        assert call["allowance"] == str(ALLOWANCE)
        worker.kill()
        worker = Program("lanes", second).start()
        await until(lambda: served(f"near:localnet:{name}:{new}"), 30, what="the new lane is served")
        for _ in range(2):
            told = await renew(second, "--allowance", str(ALLOWANCE))
            assert told.exit_code == 0, (told.output, told.exception)
            assert "is draining" in told.output
        found = await ledger.lane(old)
        assert found is not None
        assert found.state is LaneState.DRAINING
    finally:
        worker.kill()
        await ledger.close()
