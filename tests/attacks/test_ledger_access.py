"""Whoever can write to the ledger can spend: one that others reach asks for a password. Keys stay with workers."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import DURABLE, Server
from tests.stack.running import QUICK, ROOT, Up, processes
from txmanager.core.errors import Misconfigured
from txmanager.settings import PASSPHRASE_VARIABLE, Settings, environment_of
from txmanager.settings.variables import Program
from txmanager.signing.sources import PASSPHRASE_VARIABLE as OF_SIGNERS
from txmanager.stack import DataFolder
from txmanager.wiring import open_ledger

PASSWORD = "correct-horse-battery"
BEYOND = "0.0.0.0"
"""Leads to this machine, and is no loopback address: as if another one could be reached under it."""


def url(server: Server) -> str:
    return f"redis://{BEYOND}:{server.port}/0"


def settings(server: Server, **ledger: object) -> Settings:
    return Settings.model_validate({"ledger": {"url": url(server), **ledger}})


@pytest.fixture
def bare(make_server) -> Server:
    server: Server = make_server(config=DURABLE)
    return server


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")}
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("program", ["consumers.api", "consumers.lanes", "consumers.sweeper", "consumers.webhooks"])
def test_no_program_starts_on_an_open_ledger(bare: Server, program: str):
    ended = run(program, TXMANAGER__LEDGER__URL=url(bare))
    assert ended.returncode == 2, ended.stderr
    assert "answers without credentials" in ended.stderr
    assert "ledger.password" in ended.stderr


def test_doctor_fails_on_an_open_ledger_and_warns_where_that_is_wanted(bare: Server):
    ended = run("txmanager", "doctor", TXMANAGER__LEDGER__URL=url(bare))
    assert ended.returncode == 2
    assert "answers without credentials: whoever reaches it can spend" in ended.stdout
    wanted = run("txmanager", "doctor", TXMANAGER__LEDGER__URL=url(bare), TXMANAGER__LEDGER__OPEN="true")
    assert wanted.returncode == 0, wanted.stdout
    assert "ledger.open" in wanted.stdout


async def test_a_password_or_the_operators_word_opens_it(bare: Server, make_server):
    with pytest.raises(Misconfigured, match="answers without credentials"):
        await open_ledger(settings(bare))
    await (await open_ledger(settings(bare, open=True))).close()
    locked = make_server(config=DURABLE, password=PASSWORD)
    with pytest.raises(Misconfigured):
        await open_ledger(settings(locked))
    await (await open_ledger(settings(locked, password=PASSWORD))).close()


async def test_a_password_that_the_server_does_not_ask_for_protects_nothing(bare: Server):
    """We authenticate and strangers need not: the default user has no password."""
    with bare.client() as client:
        client.execute_command("ACL", "SETUSER", "app", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    with pytest.raises(Misconfigured, match="answers without credentials"):
        await open_ledger(settings(bare, username="app", password=PASSWORD))


async def test_every_primary_of_a_cluster_is_asked(cluster):
    """Its nodes tell each other loopback addresses, so they are not refused; the check itself sees each of them."""
    from txmanager.ledger.redis import access
    from txmanager.ledger.redis.links import Dial, connect

    link = connect(cluster.url, Dial(2.0))
    try:
        assert await access.open_servers(link) == []
        primaries = await link.primaries()
        assert len(primaries) == 3
        assert [await access._answers_strangers(address, 2.0) for address in primaries] == [True] * 3
    finally:
        await link.close()


# -- `txmanager up`


@pytest.fixture(scope="module")
def up(tmp_path_factory) -> Iterator[Up]:
    secrets = {PASSPHRASE_VARIABLE: "vault-passphrase"}
    running = Up(tmp_path_factory.mktemp("up"), *QUICK, environment=secrets)
    try:
        yield running.ready()
    finally:
        running.end()


def ledger_port(up: Up) -> int:
    return int(up.said.partition("Valkey on 127.0.0.1:")[2].partition(",")[0])


def test_the_stacks_own_ledger_answers_no_stranger(up: Up):
    with socket.create_connection(("127.0.0.1", ledger_port(up)), timeout=5) as stranger:
        stranger.sendall(b"PING\r\n")
        assert stranger.recv(64).startswith(b"-NOAUTH")


def test_the_ledgers_password_is_in_private_files_and_on_no_command_line(up: Up):
    password = (up.data / "keys" / "ledger-password").read_text()
    assert len(password) >= 32
    for name in ("ledger-password", "valkey.conf"):
        assert stat.S_IMODE((up.data / "keys" / name).stat().st_mode) == 0o600
    assert password not in (up.data / "txmanager.toml").read_text()
    assert password not in up.said
    assert not [command for _, _, command in processes() if password in command]
    for log in (up.data / "logs").iterdir():
        assert password not in log.read_text(errors="replace"), log.name


def test_the_password_outlives_a_restart_and_a_kept_folder_gets_one(tmp_path):
    folder = DataFolder(tmp_path)
    folder.prepare()
    assert folder.ledger_password() == folder.ledger_password()
    assert DataFolder(tmp_path).ledger_password() == folder.ledger_password()


def environ(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_text()
    return dict(entry.partition("=")[::2] for entry in text.split("\0") if entry)


def test_only_workers_get_key_material(up: Up):
    assert PASSPHRASE_VARIABLE in environ(up.child("worker-1"))
    for program in ("api", "sweeper", "valkey", "devnet"):
        assert PASSPHRASE_VARIABLE not in environ(up.child(program)), program


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        ("worker", {"KEY", "PHRASE", PASSPHRASE_VARIABLE, "LEDGER", "SEAL", "RPC", "BOTH"}),
        ("api", {"LEDGER", "SEAL", "RPC", "BOTH"}),
        ("monitor", {"LEDGER", "SEAL", "RPC", "BOTH"}),
        ("sweeper", {"LEDGER"}),
        ("webhooks", {"LEDGER", "HOOK", "BOTH"}),
    ],
)
def test_each_program_gets_the_secrets_it_reads(program: Program, kept: set[str]):
    hook = {"name": "h", "url": {"env": "BOTH"}, "secret": {"env": "HOOK"}}
    told = Settings.model_validate(
        {
            "ledger": {"password": {"env": "LEDGER"}, "seal": [{"env": "SEAL"}]},
            "networks": {
                "n": {"chain": "near", "rpc": [{"url": {"env": "RPC"}}, {"url": {"env": "BOTH"}}]},
                "e": {"chain": "evm", "chain_id": 1, "rpc": [{"url": "http://127.0.0.1:1"}]},
            },
            "pools": {
                "a": {"network": "n", "account": "a.near", "keys": ["env:KEY"], "webhooks": [hook]},
                "b": {"network": "e", "keys": ["mnemonic:PHRASE:3"]},
            },
        }
    )
    secrets = {"KEY", "PHRASE", PASSPHRASE_VARIABLE, "LEDGER", "SEAL", "RPC", "BOTH", "HOOK"}
    given = dict.fromkeys(secrets, "secret") | {"PATH": "/bin"}
    assert set(environment_of(program, told, given)) == kept | {"PATH"}
    assert PASSPHRASE_VARIABLE == OF_SIGNERS


# -- `txmanager config show`


@pytest.mark.parametrize("secret", ["k", "abc123", "3f9ad8c0b1e24f6b8a7c", "p%40ss"])
@pytest.mark.parametrize("form", ["https://{}@h.io", "https://u:{}@h.io", "https://h.io/v3/{}/x", "https://h.io/?{}"])
def test_config_show_prints_no_secret_of_any_length(secret: str, form: str):
    address = form.format(secret)
    told = Settings.model_validate({"networks": {"n": {"chain": "near", "rpc": [{"url": address}]}}})
    shown = told.shown()["networks"]
    assert secret not in json.dumps(shown).replace("networks", "").replace("rpc", "").replace("https", "")
    assert secret not in repr(told.networks["n"].rpc[0].url).replace("https", "")
