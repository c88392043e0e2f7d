"""The operator's commands next to a running `txmanager up`, without a single option that says where it is."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.processes import end, make_folder, remove_folder, spawn
from tests.stack.running import QUICK, ROOT, Up
from tests.waiting import until_sync
from txmanager.cli import main
from txmanager.core.seal import BAD_SEAL, SealCheck
from txmanager.core.states import Status
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.lane.sealing import make_seals
from txmanager.testing.ledger.stage import Stage


@dataclass(frozen=True)
class Said:
    returncode: object
    stdout: str
    stderr: str


Run = Callable[..., Said]
PUBLIC_KEY = f"ed25519:{'1' * 31}2"


@pytest.fixture(scope="module")
def stack() -> Iterator[Up]:
    folder = make_folder("operator")
    running = Up(folder, *QUICK, "--workers", "1")
    try:
        yield running.ready()
    finally:
        running.end(signal.SIGTERM)
        remove_folder(folder)


def command(cwd: Path, *arguments: str, stdin: str = "", **environment: str) -> Said:
    """The entry point in this process: a process for each of them would cost a minute of imports."""
    out, err = io.StringIO(), io.StringIO()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TXMANAGER")}
    argv = ["txmanager", *arguments]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", argv)
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        patch.setattr(os, "environ", clean | {"COLUMNS": "200"} | environment)
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    return Said(code or 0, out.getvalue(), err.getvalue())


@pytest.fixture
def run(stack) -> Run:
    """In the folder where `up` was started."""
    return lambda *arguments, **more: command(stack.data.parent, *arguments, **more)


def payload(name: str) -> str:
    return json.dumps({"new_account_id": f"{name}.dev0.near", "public_key": PUBLIC_KEY})


def lanes(run: Run) -> list[dict[str, object]]:
    return json.loads(run("lanes", "--json").stdout)


def test_submit_prints_the_final_record_and_says_when_it_comes_from_the_ledger(run):
    first = run("submit", "near.create_account", payload("submitted"))
    assert (first.returncode, first.stderr) == (0, "")
    record = json.loads(first.stdout)
    assert record["status"] == "done", record
    again = run("submit", "near.create_account", "-", stdin=payload("submitted"))
    assert again.stderr == "this key was accepted before; this is its stored record\n"
    assert json.loads(again.stdout) == record
    shown = run("show", record["idempotency_key"])
    assert json.loads(shown.stdout) == record


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("near.create_account", "{"), "PAYLOAD: is not JSON"),
        (("near.create_account", "[]"), "PAYLOAD: must be a JSON object"),
        (("near.create_account", "@nowhere.json"), "PAYLOAD: cannot read nowhere.json"),
        (("near.create_account", "{}"), "new_account_id"),
        (("near.nothing", "{}"), "kind: 'near.nothing' is not one of"),
        (("near.create_account", "{}", "--url", "ftp://x"), "--url: must start with http"),
        (("near.create_account", "{}", "--url", "http://127.0.0.1:1"), "cannot reach the API at http://127.0.0.1:1"),
        (("near.create_account", "{}", "--token", "txm_wrong"), "the token is not known"),
    ],
)
def test_a_submit_that_cannot_work_is_one_sentence(run, arguments, words):
    said = run("submit", *arguments)
    assert said.returncode in (1, 2)
    assert said.stdout == ""
    assert words in said.stderr
    assert said.stderr.count("\n") == 1


def test_show_of_an_unknown_key_is_one_sentence(run):
    said = run("show", "nobody")
    assert said.returncode == 1
    assert said.stderr == (
        "txmanager: no intent 'nobody' in any pool (default); it was never accepted, or its retention time has passed\n"
    )


def test_lanes_lists_them_and_steers_one_by_a_part_of_its_name(run):
    listed = run("lanes").stdout.splitlines()
    assert listed[0].split() == ["pool", "state", "depth", "in", "flight", "oldest", "owner", "lane"]
    assert [line.split()[:2] for line in listed[1:]] == [["default", "active"]] * 2
    name = str(lanes(run)[0]["lane"])
    part = name[-9:-1]
    said = run("lanes", "pause", part, "--reason", "moving house")
    assert said.stdout == f"{name}: active -> paused (moving house)\n", said.stderr
    assert "    moving house" in run("lanes").stdout.splitlines()
    assert run("lanes", "resume", part).stdout == f"{name}: paused -> active\n"


def test_a_pool_without_an_active_lane_refuses_in_words_and_works_again_after_a_resume(run):
    for lane in lanes(run):
        assert run("lanes", "pause", str(lane["lane"])).returncode == 0
    try:
        said = run("submit", "near.create_account", payload("later"), "--wait", "0.5")
        assert said.returncode == 1
        assert "pool 'default' has no active lane; start a worker for it, or resume a lane." in said.stderr
        doctor = run("doctor")
        assert doctor.stdout.count("warn  lanes:") == 2
        assert doctor.returncode == 0
    finally:
        for lane in lanes(run):
            assert run("lanes", "resume", str(lane["lane"])).returncode == 0
    record = json.loads(run("submit", "near.create_account", payload("later")).stdout)
    assert record["status"] == "done", record
    refused = run("resolve", record["idempotency_key"], "track")
    assert refused.stderr == "txmanager: the intent is done, which is final; there is nothing to resolve\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lanes", "pause", "near:"), "matches 2 lanes; give more of the id"),
        (("lanes", "pause", "nothing"), "no lane has 'nothing' in its id"),
        (("lanes", "close", "LANE", "--yes"), ""),
        (("lanes", "close", "LANE"), "--yes: nothing was done"),
        (("lanes", "rebaseline", "LANE"), "--yes: nothing was done"),
        (("lanes", "replay", "LANE", "--yes"), "only a lane that is quarantined for reorg_beyond_finality"),
        (("resolve", "nobody", "fail", "--force"), "--yes: nothing was done"),
    ],
)
def test_a_wrong_word_to_a_lane_changes_nothing_and_is_one_sentence(run, arguments, words):
    before = [(lane["lane"], lane["state"]) for lane in lanes(run)]
    said = run(*(str(before[0][0]) if word == "LANE" else word for word in arguments))
    assert said.returncode in (1, 2)
    assert "Traceback" not in said.stderr
    assert words in said.stderr
    assert said.stderr.startswith("txmanager: ") or "[y/N]" in said.stdout
    assert [(lane["lane"], lane["state"]) for lane in lanes(run)] == before


def test_watch_shows_depth_rate_oldest_and_owner(run):
    said = run("watch", "--times", "2", "--every", "0.3")
    assert said.returncode == 0, said.stderr
    for word in ("depth", "in flight", "rate/s", "oldest", "owner", "worker-1", "2 lanes"):
        assert word in said.stdout, said.stdout


def test_doctor_finds_nothing_wrong_with_the_embedded_stack(run):
    said = run("doctor")
    assert said.returncode == 0, said.stdout
    parts = {re.match(r"(\w+) +([\w ]+):", line).groups() for line in said.stdout.splitlines()}  # type: ignore[union-attr]
    assert parts == {("ok", part) for part in ("config", "ledger", "clock", "workers", "network localnet", "keys")}, (
        said.stdout
    )
    assert "can spend" in said.stdout
    assert said.stdout.count("at nonce") == 2


def test_doctor_names_a_node_that_is_away_and_a_key_that_is_not_on_chain(run, stack, tmp_path):
    config = stack.data / "txmanager.toml"
    away = re.sub(r'url = "http://[^"]+"', 'url = "http://127.0.0.1:1"', config.read_text())
    (tmp_path / "away.toml").write_text(away)
    said = run("doctor", "--config", str(tmp_path / "away.toml"))
    assert said.returncode == 2
    assert "fail  network localnet: rpc[0]: " in said.stdout
    [keys] = [entry.removeprefix("file:") for entry in tomllib.loads(config.read_text())["pools"]["default"]["keys"]]
    told = json.loads(Path(keys).read_text())
    for entry in told:
        entry["account_id"] = "dev1.near"
    (tmp_path / "keys.json").write_text(json.dumps(told))
    missing = config.read_text().replace(keys, str(tmp_path / "keys.json")).replace("dev0.near", "dev1.near")
    (tmp_path / "missing.toml").write_text(missing)
    said = run("doctor", "--config", str(tmp_path / "missing.toml"))
    assert said.returncode == 2
    assert "is not on chain (fix: `txmanager keys provision`" in said.stdout


def test_a_program_runs_under_its_own_command_and_ends_on_sigterm(stack, tmp_path):
    log = tmp_path / "worker.log"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TXMANAGER__WORKER__NAME": "by-hand"}
    child = spawn([sys.executable, "-m", "txmanager", "worker"], log, cwd=stack.data.parent, env=environment)
    try:
        until_sync(lambda: "2 alive" in command(stack.data.parent, "doctor").stdout, 30, every=0.5, what="two workers")
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0, log.read_text()
    finally:
        end(child)


async def test_cancel_and_resolve_leave_the_operators_word_in_the_ledger(valkey9, prefix, tmp_path):
    ledger = RedisLedger(valkey9.url, prefix=prefix)
    await ledger.start()
    try:
        stage = Stage(ledger, lambda *_: None, lambda **_: ledger)
        fence = await stage.own(await stage.lane())
        write = await stage.held(fence)
        where = {"TXMANAGER__LEDGER__URL": valkey9.url, "TXMANAGER__LEDGER__PREFIX": prefix}

        async def say(*arguments: str) -> Said:
            return await asyncio.to_thread(command, tmp_path, *arguments, **where)

        async def word(*arguments: str) -> Said:
            return await say("resolve", write.id.key, *arguments)

        shown = json.loads((await say("show", write.id.key)).stdout)
        assert (shown["status"], shown["error"]["code"]) == ("held", "held")
        assert (await word("settle", "--hash", "other")).stderr.startswith("txmanager: other is none of the intent's")
        assert (await word("guess")).stderr.startswith("txmanager: verb: must be one of")
        assert (await word("track", "--force", "--yes")).stderr.startswith("txmanager: force: only resign and fail")
        assert (await word("settle", "--hash", write.attempt.hash)).returncode == 0
        [record] = await ledger.unfinished(fence)
        assert record.directive is not None
        assert (record.directive["verb"], record.directive["hash"]) == ("settle", write.attempt.hash)
        assert "@" in record.directive["by"]
        assert (await word("fail", "--force", "--yes")).returncode == 0
        [record] = await ledger.unfinished(fence)
        assert record.directive is not None
        assert record.directive["force"] is True
        [entry] = await stage.queued(fence.lane)
        assert json.loads((await say("cancel", entry.intent.id.key)).stdout)["status"] == "cancelled"
        again = await say("cancel", entry.intent.id.key)
        assert "Traceback" not in again.stderr
    finally:
        await ledger.close()


async def test_reseal_shows_what_will_be_signed_and_asks_first(valkey9, prefix, tmp_path):
    ledger = RedisLedger(valkey9.url, prefix=prefix)
    await ledger.start()
    try:
        stage = Stage(ledger, lambda *_: None, lambda **_: ledger)
        fence = await stage.own(await stage.lane())
        [entry] = await stage.queued(fence.lane)
        [taken] = await ledger.take(fence, 9)
        await ledger.set_aside(fence, taken, BAD_SEAL, {"check": "wrong"})
        config = f"[ledger]\nurl = '{valkey9.url}'\nprefix = '{prefix}'\n"
        (tmp_path / "txmanager.toml").write_text(config)

        async def say(*arguments: str) -> Said:
            return await asyncio.to_thread(command, tmp_path, "reseal", entry.intent.id.key, *arguments)

        assert "there is no ledger.seal" in (await say("--yes")).stderr
        (tmp_path / "seal").write_text("s" * 32)
        (tmp_path / "txmanager.toml").write_text(f"{config}seal = [{{ file = 'seal' }}]\n")
        asked = await say()
        assert asked.returncode == 2
        assert '"to": "bob"' in asked.stderr
        assert (await stage.read(entry)).status is Status.HELD
        done = await say("--yes")
        assert json.loads(done.stdout)["status"] == "queued", done.stderr
        assert "ssss" not in done.stdout + done.stderr
        again = await stage.read(entry)
        assert make_seals(["s" * 32]).check(again.intent, again.life, again.lane, again.seal) is SealCheck.GOOD
        assert "held for its seal" in (await say("--yes")).stderr
    finally:
        await ledger.close()


def test_doctor_says_whether_intents_are_sealed(valkey9, tmp_path):
    def said(more: str) -> str:
        (tmp_path / "txmanager.toml").write_text(f"[ledger]\nurl = '{valkey9.url}'\n{more}")
        return command(tmp_path, "doctor").stdout

    (tmp_path / "seal").write_text("s" * 32)
    assert "ok    ledger: intents are not sealed" in said("")
    assert "warn  ledger: intents are sealed, but intents without a seal" in said("seal = [{ file = 'seal' }]")
    assert "ok    ledger: only sealed intents" in said("seal = [{ file = 'seal' }]\nseal_mode = 'require'")
    (tmp_path / "seal").write_text("short")
    assert "fail  ledger: ledger.seal[0]: must have at least 32" in said("seal = [{ file = 'seal' }]")


def test_a_new_token_fits_its_hash_and_the_configuration(tmp_path):
    limits = ["--pool", "relay", "--kind", "near.transfer", "--kind", "evm.raw"]
    limits += ["--receiver", "*.shop.near", "--max-deposit", "5", "--max-cost", "7"]
    said = command(tmp_path, "tokens", "new", "shop", "--scope", "submit", "--scope", "read", *limits)
    token, toml = said.stderr.splitlines()[-1], said.stdout
    assert token.startswith("txm_")
    assert token not in toml
    [entry] = tomllib.loads(toml)["api"]["tokens"]
    assert entry["limits"]["kinds"] == ["near.transfer", "evm.raw"]
    assert (entry["limits"]["max_deposit"], entry["limits"]["max_cost"]) == ("5", "7")
    assert entry["sha256"] == hashlib.sha256(token.encode()).hexdigest()
    assert entry["scopes"] == ["submit", "read"]
    pool = '[networks.n]\nchain = "near"\nrpc = [{ url = "http://127.0.0.1:1" }]\n[pools.relay]\nnetwork = "n"\n'
    (tmp_path / "txmanager.toml").write_text(f'{pool}account = "a.near"{toml}')  # no line break before it
    assert command(tmp_path, "config", "check").returncode == 0
    assert command(tmp_path, "tokens", "hash", stdin=f"{token}\n").stdout == f"{entry['sha256']}\n"
    assert command(tmp_path, "tokens", "hash", stdin="short\n").returncode == 2
    assert command(tmp_path, "tokens", "new", "no spaces").returncode == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("", "--pool, --kind, --receiver, --max-deposit: is required"),
        ("--pool p --kind near.transfer --receiver a.near", "--max-deposit: is required"),
        ("--scope read", "--pool: is required"),
        ("--pool p --kind near.steal --receiver a.near --max-deposit 1", "--kind: 'near.steal' is not one of near."),
        ("--pool p --kind any --receiver a$b --max-deposit 1", "--receiver: 'a$b' is not an account"),
        ("--pool p --kind any --receiver any --max-deposit 1.5", "--max-deposit: must be a whole number"),
        ("--pool p --pool any --kind any --receiver any --max-deposit 1", "--pool: any cannot be combined"),
        ("--pool p --kind any --receiver any --max-deposit any --tenant a/b", "--tenant: "),
    ],
)
def test_a_token_without_limits_is_made_only_on_request(tmp_path, options, says):
    said = command(tmp_path, "tokens", "new", "shop", *options.split())
    assert (said.returncode, said.stdout) == (2, "")
    assert says in said.stderr
    assert "txm_" not in said.stderr


def test_lifted_limits_are_not_written_and_warned_about(tmp_path):
    said = command(tmp_path, "tokens", "new", "ops", "--scope", "operate", "--pool", "any", "--tenant", "*")
    [entry] = tomllib.loads(said.stdout)["api"]["tokens"]
    assert (entry["scopes"], entry["tenant"], entry.get("limits")) == (["operate"], "*", None)
    assert "Warning: pools of this token are not limited" in said.stderr


def test_commands_without_a_reachable_ledger_are_one_sentence(tmp_path):
    for arguments in (("lanes",), ("show", "k"), ("watch", "--times", "1"), ("resolve", "k", "track")):
        said = command(tmp_path, *arguments, TXMANAGER__LEDGER__URL="redis://127.0.0.1:1/0")
        assert said.returncode == 2
        assert "cannot reach Redis at 127.0.0.1:1" in said.stderr
        assert said.stderr.count("\n") == 1
