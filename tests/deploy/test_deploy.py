"""What deploy/ names exists, and what it sets agrees with the programs. Building and running it is not tested here."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.servers import Server
from txmanager.api.auth import Gate
from txmanager.api.metrics import ApiMetrics
from txmanager.cli import app
from txmanager.core.stops import PauseCause, QuarantineCause
from txmanager.ledger.redis.checks import inspect
from txmanager.runtime.metrics import Metrics
from txmanager.runtime.monitor_metrics import MonitorMetrics
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
    for registry in (Metrics().registry, ApiMetrics().registry, MonitorMetrics().registry):
        for metric in registry.collect():
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric.type, [""])
            found |= {metric.name + suffix for suffix in suffixes}
    return found


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


# -- compose


def test_compose_runs_redis_with_settings_that_the_start_up_checks_accept(make_server):
    words = COMPOSE["services"]["redis"]["command"][1:]
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


# -- what the programs are told


def environments() -> list[dict[str, str]]:
    told = [service["environment"] for service in COMPOSE["services"].values() if "environment" in service]
    for pod in WORKLOADS.values():
        for container in pod["containers"]:
            told.append({entry["name"]: entry.get("value", "pod-1") for entry in container.get("env", ())})
    return [environment for environment in told if environment]


@pytest.mark.parametrize("environment", environments(), ids=lambda e: "-".join(e.values()))
def test_every_environment_variable_is_a_setting(environment, tmp_path):
    config = tmp_path / "c.toml"
    token = f'\n[[api.tokens]]\nname = "a"\nscopes = ["read"]\nsha256 = "{"0" * 64}"\n'
    config.write_text((DEPLOY / "config/txmanager.toml").read_text() + token)
    assert load(config, environment) != load(config, {})


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
    api = next(told for told in environments() if "TXMANAGER__API__HOST" in told)
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
    assert verbs <= {"pause", "resume", "drain", "close", "rebaseline"}


def test_promtool_finds_the_rules_right_and_their_unit_tests_pass():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH (package prometheus)")
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "rules_test.yml"]):
        told = subprocess.run(
            [promtool, *words], cwd=DEPLOY / "prometheus", capture_output=True, text=True, timeout=60, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
