"""The command line as people use it: a real process, its output and its exit code."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import DURABLE, HOST, Server, free_port
from tests.servers.proxy import FaultProxy
from tests.servers.tls import make_certificates
from tests.servers.workerd import PRODUCER, Workerd
from txmanager.core.models import LaneSpec
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.keys import Keys
from txmanager.settings import load

SECRET = "hunter2"


@pytest.fixture
def run(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")}
        return subprocess.run(
            [sys.executable, "-m", "txmanager", *arguments],
            cwd=tmp_path,
            env=clean | {"PYTHONPATH": str(Path(__file__).parent.parent.parent), "COLUMNS": "200"} | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def one_sentence(text: str) -> str:
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_help_names_the_commands(run):
    said = run("--help")
    assert said.returncode == 0
    for command in ("config", "doctor", "devnet"):
        assert re.search(rf"\b{command}\b", said.stdout)


def test_version_is_that_of_the_package(run):
    project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]
    assert run("--version").stdout == f"txmanager {project['version']}\n"


def test_an_unknown_config_key_is_one_sentence_and_exit_2(run, tmp_path):
    (tmp_path / "c.toml").write_text("[ledger]\nurll = 'x'")
    for command in (("config", "check"), ("config", "show"), ("doctor",)):
        said = run(*command, "--config", "c.toml")
        assert said.returncode == 2
        assert said.stdout == ""
        assert one_sentence(said.stderr) == "txmanager: ledger.urll: unknown key in c.toml; did you mean 'url'?"


def test_a_missing_config_file_is_one_sentence_and_exit_2(run):
    said = run("config", "check", "--config", "nowhere.toml")
    assert said.returncode == 2
    assert one_sentence(said.stderr) == "txmanager: config: cannot read nowhere.toml: No such file or directory"


def test_check_names_every_problem_on_a_line_of_its_own(run, tmp_path):
    (tmp_path / "c.toml").write_text("[ledger]\nreplicas = 0\n[api]\nport = -1")
    said = run("config", "check", "--config", "c.toml")
    assert said.returncode == 2
    assert [line.split(": ")[1] for line in said.stderr.splitlines()] == ["ledger.replicas", "api.port"]


def test_check_says_which_file_is_fine(run, tmp_path):
    (tmp_path / "txmanager.toml").write_text("ledger.prefix = 'x'")
    said = run("config", "check")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == "ok: txmanager.toml (ledger redis://127.0.0.1:6379/0, pools: none)\n"


def test_show_prints_toml_without_secrets_that_means_the_same(run, tmp_path):
    example = (Path(__file__).parent.parent.parent / "config" / "near-testnet.toml").read_text()
    (tmp_path / "c.toml").write_text(
        example
        + '[[api.tokens]]\nname = "a"\nscopes = ["submit", "read"]\nlimits = { burst = 5, pools = ["relay"] }\n'
        + f'sha256 = "{"0123456789abcdef" * 4}"\n'
    )
    environment = {"TXMANAGER__LEDGER__PASSWORD": SECRET, "TXMANAGER__WORKER__NAME": 'quote"and\\back'}
    refused = run("config", "show", "--config", "c.toml", **environment)
    assert refused.returncode == 2
    environment["TXMANAGER__WORKER__NAME"] = "w1"
    said = run("config", "show", "--config", "c.toml", **environment)
    assert said.returncode == 0, said.stderr
    assert SECRET not in said.stdout
    assert tomllib.loads(said.stdout) == load(tmp_path / "c.toml", environment).shown()


def test_doctor_finds_nothing_wrong_with_a_durable_server(run, valkey9, prefix):
    said = run("doctor", TXMANAGER__LEDGER__URL=valkey9.url, TXMANAGER__LEDGER__PREFIX=prefix)
    assert said.returncode == 0, said.stdout
    assert {line.split()[0] for line in said.stdout.splitlines()} == {"ok"}, said.stdout
    assert "Valkey 9" in said.stdout


SEALED = {
    "TXMANAGER__LEDGER__SEAL": '["0123456789abcdef0123456789abcdef"]',
    "TXMANAGER__LEDGER__SEAL_MODE": "require",
}


def test_doctor_finds_nothing_wrong_with_durable_objects(run, durable: Workerd):
    for url, role in ((durable.url, "owner"), (durable.url_for(PRODUCER), "producer")):
        said = run("doctor", TXMANAGER__LEDGER__URL=url, **SEALED)
        assert said.returncode == 0, said.stdout
        assert f"Durable Objects; our secret is the {role}'s" in said.stdout


def test_doctor_of_durable_objects_with_a_wrong_secret_is_one_sentence_and_exit_2(run, durable: Workerd):
    said = run("doctor", TXMANAGER__LEDGER__URL=durable.url_for("w" * 40), **SEALED)
    [line] = failures(said)
    assert "the ledger refuses our secret; check ledger.password" in line
    assert "w" * 40 not in said.stdout + said.stderr
    [line] = failures(run("doctor", TXMANAGER__LEDGER__URL=f"do+http://:{'w' * 40}@10.0.0.1", **SEALED))
    assert "must begin with do+https" in line
    assert run("doctor", TXMANAGER__LEDGER__URL=durable.url).returncode == 2, "without a seal"


def failures(said: subprocess.CompletedProcess[str]) -> list[str]:
    assert said.returncode == 2, said.stdout
    assert "Traceback" not in said.stderr
    return [line for line in said.stdout.splitlines() if line.startswith("fail")]


def test_doctor_of_an_unreachable_server_is_one_sentence_and_exit_2(run):
    port = free_port()
    [line] = failures(run("doctor", TXMANAGER__LEDGER__URL=f"redis://127.0.0.1:{port}/0"))
    assert f"cannot reach Redis at 127.0.0.1:{port}" in line
    assert "(fix: " in line


def test_doctor_with_a_wrong_password_is_one_sentence_and_exit_2(run, make_server: Callable[..., Server]):
    server = make_server(config=DURABLE, password=SECRET)
    right = run(
        "doctor", TXMANAGER__LEDGER__URL=f"redis://127.0.0.1:{server.port}/0", TXMANAGER__LEDGER__PASSWORD=SECRET
    )
    assert right.returncode == 0, right.stdout
    for url in (f"redis://:wrong-{SECRET}@127.0.0.1:{server.port}/0", f"redis://127.0.0.1:{server.port}/0"):
        said = run("doctor", TXMANAGER__LEDGER__URL=url)
        [line] = failures(said)
        assert "password" in line.lower() or "credentials" in line
        assert SECRET not in said.stdout + said.stderr


def test_doctor_with_an_evicting_server_is_one_sentence_and_exit_2(run, make_server: Callable[..., Server]):
    server = make_server(config=DURABLE | {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    [line] = failures(run("doctor", TXMANAGER__LEDGER__URL=server.url))
    assert "maxmemory-policy is allkeys-lru" in line
    assert "(fix: set maxmemory-policy noeviction)" in line


def test_doctor_refuses_fsync_durability_that_the_server_does_not_give(run, make_server: Callable[..., Server]):
    server = make_server(config={"appendonly": "yes", "appendfsync": "everysec"})
    [line] = failures(run("doctor", TXMANAGER__LEDGER__URL=server.url))
    assert "appendfsync is everysec" in line


def test_doctor_warns_of_durability_none_but_does_not_fail(run, make_server: Callable[..., Server]):
    said = run("doctor", TXMANAGER__LEDGER__URL=make_server().url, TXMANAGER__LEDGER__DURABILITY="none")
    assert said.returncode == 0
    assert "warn  ledger: durability none" in said.stdout


def test_doctor_speaks_to_sentinel_and_cluster(run, sentinel, cluster):
    for topology, primaries in ((sentinel, 1), (cluster, 3)):
        said = run("doctor", TXMANAGER__LEDGER__URL=topology.url, TXMANAGER__LEDGER__DURABILITY="replicas")
        assert said.returncode == 0, said.stdout
        assert said.stdout.count("durability replicas, 1 connected") == primaries


async def test_doctor_speaks_tls_and_trusts_no_stranger(run, valkey9, tmp_path):
    certificates = make_certificates(tmp_path)
    async with FaultProxy(HOST, valkey9.port, tls=certificates.server_context) as proxy:
        assert proxy.url.startswith("rediss://")
        trusting = {"SSL_CERT_FILE": str(certificates.authority)}
        said = await asyncio.to_thread(run, "doctor", TXMANAGER__LEDGER__URL=proxy.url, **trusting)
        assert said.returncode == 0, said.stdout
        [line] = failures(await asyncio.to_thread(run, "doctor", TXMANAGER__LEDGER__URL=proxy.url))
        assert "certificate verify failed" in line


def test_doctor_names_a_secret_that_is_not_there(run, tmp_path):
    (tmp_path / "c.toml").write_text("[ledger]\npassword = { env = 'NOT_SET' }")
    [line] = failures(run("doctor", "--config", "c.toml"))
    assert "ledger.password: environment variable NOT_SET is not set" in line


# -- the ledger's formats


def older_installation(url: str, prefix: str) -> RedisLedger:
    """One lane, registered before anybody wrote down a schema."""
    ledger = RedisLedger(url, prefix=prefix, durability="none")
    keys = Keys(prefix)

    async def begin() -> None:
        await ledger.runner.plain(keys.schema, ("SET", keys.schema, 1))
        await ledger.register(LaneSpec("near:net:a:1", "p"))
        await ledger.close()

    asyncio.run(begin())
    return ledger


def test_the_ledgers_schema_is_shown_and_raised_once_somebody_confirms(run, valkey9, prefix):
    environment = {"TXMANAGER__LEDGER__URL": valkey9.url, "TXMANAGER__LEDGER__PREFIX": prefix}
    older_installation(valkey9.url, prefix)
    said = run("ledger", "status", **environment)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("schema 1 of 2; `txmanager ledger upgrade`")
    assert "1 lane of schema 1" in said.stdout
    refused = run("ledger", "upgrade", **environment)  # nobody answers the question
    assert refused.returncode == 1
    assert "APIs" in refused.stdout
    assert run("ledger", "status", **environment).stdout == said.stdout
    raised = run("ledger", "upgrade", "--yes", **environment)
    assert raised.returncode == 0, raised.stderr
    assert raised.stdout.endswith("schema 2, 1 lanes raised\n")
    assert run("ledger", "upgrade", **environment).stdout == "schema 2 already; nothing to do\n"
    assert "1 lane of schema 2" in run("ledger", "status", **environment).stdout


def test_an_upgrade_beside_an_older_worker_is_one_sentence_that_names_it(run, valkey9, prefix):
    environment = {"TXMANAGER__LEDGER__URL": valkey9.url, "TXMANAGER__LEDGER__PREFIX": prefix}
    older_installation(valkey9.url, prefix)
    keys = Keys(prefix)
    with valkey9.client() as client:
        client.hset(keys.members, "old-worker", '{"name":"old-worker","lanes":["near:net:a:1"]}')
        client.zadd(keys.deadlines, {"old-worker": 4e12})
    said = run("ledger", "upgrade", "--yes", **environment)
    assert said.returncode == 1
    assert "worker old-worker" in one_sentence(said.stderr)
    assert "1 lane of schema 1" in run("ledger", "status", **environment).stdout
