"""A server that cannot keep the promises is refused in one clear sentence that says what to do."""

from __future__ import annotations

import asyncio

import pytest

from tests.servers import DURABLE, HOST, free_port
from tests.waiting import until
from txmanager.core.errors import InvalidSettings, Misconfigured, TxManagerError, Unavailable
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.checks import inspect


async def start(url: str, **options: object) -> list[str]:
    ledger = RedisLedger(url, **{"timeout_s": 1.0, **options})  # type: ignore[arg-type]
    try:
        return await ledger.start()
    finally:
        await ledger.close()


async def refusal(url: str, **options: object) -> str:
    with pytest.raises(TxManagerError) as told:
        await start(url, **options)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    return sentence


async def test_durable_server_is_accepted_without_a_word(make_server):
    assert await start(make_server(config=DURABLE).url) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "allkeys-random"])
async def test_evicting_server_is_refused(policy: str, make_server):
    url = make_server(config={**DURABLE, "maxmemory-policy": policy}).url
    assert await refusal(url) == (
        f"maxmemory-policy is {policy}: the server would delete accepted intents when memory is short. "
        "Fix: set maxmemory-policy noeviction."
    )


@pytest.mark.parametrize(
    ("config", "shown"),
    [({"appendonly": "yes", "appendfsync": "everysec"}, "everysec"), ({"appendonly": "no"}, "off")],
)
async def test_server_that_does_not_sync_is_refused_by_durability_fsync(
    config: dict[str, str], shown: str, make_server
):
    sentence = await refusal(make_server(config=config).url)
    assert f"needs appendonly yes and appendfsync always; appendfsync is {shown}. Fix: set appendonly yes" in sentence


async def test_server_that_stops_syncing_while_it_rewrites_its_file_is_refused(make_server):
    sentence = await refusal(make_server(config={**DURABLE, "no-appendfsync-on-rewrite": "yes"}).url)
    assert sentence.endswith("Fix: set no-appendfsync-on-rewrite no.")


async def test_durability_none_warns_of_its_risk(make_server):
    warnings = await start(make_server().url, durability="none")
    assert any("persistence is off" in w for w in warnings)
    assert any("pay twice" in w for w in warnings)


async def test_durability_replicas_without_a_replica_is_refused(make_server):
    assert "no replica is connected. Fix: attach a replica." in await refusal(make_server().url, durability="replicas")


async def test_fewer_replicas_than_waited_for_are_refused_and_more_are_warned_of(make_server):
    primary = make_server()
    for _ in range(2):
        make_server(replica_of=(HOST, primary.port))
    client = primary.client()
    await until(lambda: client.info("replication")["connected_slaves"] == 2)
    assert "waits for 3 replicas, but 2 is connected" in await refusal(primary.url, durability="replicas", replicas=3)
    assert not any("replicas" in w for w in await start(primary.url, durability="replicas", replicas=2))
    warnings = await start(primary.url, durability="replicas", replicas=1)
    assert any("a failover to another one loses acknowledged intents" in w for w in warnings)


async def test_durability_fsync_is_refused_where_a_failover_can_happen(sentinel, cluster):
    for url in (sentinel.url, cluster.url):
        assert "does not survive a failover" in await refusal(url)


async def test_replica_is_refused(make_server):
    primary = make_server()
    replica = make_server(replica_of=(HOST, primary.port))
    assert "is a replica and takes no writes" in await refusal(replica.url, durability="none")


async def test_server_that_is_away_is_named(make_server):
    port = free_port()
    sentence = await refusal(f"redis://{HOST}:{port}/0")
    assert sentence.startswith(f"cannot reach Redis at {HOST}:{port}: ")
    for form in ("redis+cluster://{}", "redis+sentinel://{}/mymaster"):
        with pytest.raises(Unavailable):
            await start(form.format(f"{HOST}:{port}"), durability="replicas")


async def test_wrong_password_is_told_without_showing_it(make_server):
    server = make_server(config=DURABLE, password="right")
    assert await start(server.url) == []
    for url in (f"redis://:guess@{HOST}:{server.port}/0", f"redis://:guess@{HOST}:{server.port}/1"):
        sentence = await refusal(url)
        assert "refused the credentials" in sentence
        assert "guess" not in sentence
    assert "Check the user and password in ledger.url" in await refusal(f"redis://{HOST}:{server.port}/0")


async def test_wrong_password_on_the_waiting_connection_is_not_called_a_shortfall(make_server):
    """The password changes while a worker runs: its durable calls must say so, not "retry"."""
    server = make_server(password="right")
    ledger = RedisLedger(server.url, durability="replicas", wait_ms=50, timeout_s=1.0)
    with server.client() as client:
        client.config_set("requirepass", "other")
    with pytest.raises(Misconfigured, match="credentials"):
        await ledger.runner.run("members", ["a{x}", "b{x}", "c{x}"], durable=True)
    await ledger.close()


async def test_server_that_is_too_old_is_refused():
    """A server that calls itself Redis 5: nothing older than 6.2 has what the scripts use."""
    info = b"# Server\r\nredis_version:5.0.14\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"no-appendfsync-on-rewrite\r\n")
            config = (
                b"*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n*2\r\n$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n"
            )
            writer.write(b"$%d\r\n%s\r\n" % (len(info), info) + config)

    server = await asyncio.start_server(serve, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    assert await refusal(f"redis://{HOST}:{port}/0") == (
        "Redis 5.0.14 is too old. Fix: use Redis 6.2 or later, or Valkey."
    )
    server.close()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://localhost", "must begin with redis://"),
        ("redis+other://localhost", "must begin with redis://"),
        ("redis://localhost:port/0", "not a number"),
        ("redis://localhost/first", "not a number"),
        ("redis+sentinel://localhost:26379", "names no service"),
        ("redis+cluster://localhost:7000/1", "database 0 only"),
    ],
)
async def test_url_that_makes_no_sense_names_the_setting(url: str, problem: str):
    with pytest.raises(InvalidSettings, match=f"ledger.url: .*{problem}"):
        RedisLedger(url)


async def test_prefix_with_braces_is_refused():
    with pytest.raises(InvalidSettings, match=r"ledger\.prefix"):
        RedisLedger("redis://localhost", prefix="{one}")


async def test_doctor_lists_every_finding(make_server):
    server = make_server(config={"maxmemory-policy": "allkeys-lru"})
    findings = await inspect(server.url)
    assert [f.level for f in findings] == ["ok", "ok", "fail", "warn", "fail"]
    assert findings[1].what.startswith("allocator ")
    [away] = await inspect(f"redis://{HOST}:{free_port()}/0")
    assert (away.level, "cannot reach" in away.what) == ("fail", True)
