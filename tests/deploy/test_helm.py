"""The chart renders to the manifests of deploy/kubernetes, and to valid ones with every option."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_deploy import COMMANDS, DEPLOY, MANIFESTS, WORKLOADS
from tests.servers.gobuilt import built, missing
from txmanager.settings import load

CHART = DEPLOY / "helm" / "txmanager"
EVERYTHING = ("monitor", "webhooks", "archiver", "gateway")
Manifests = dict[tuple[str, str], dict[str, Any]]


def helm(*words: str | Path) -> str:
    binary = built("helm")
    if binary is None:
        pytest.skip(missing("helm"))
    done = subprocess.run([binary, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rendered(*words: str | Path, release: str = "txmanager") -> Manifests:
    text = helm("template", release, CHART, *words)
    return {(m["kind"], m["metadata"]["name"]): m for m in yaml.safe_load_all(text) if m}


def with_programs(*names: str) -> list[str]:
    return [word for name in names for word in ("--set", f"{name}.enabled=true")]


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Manifests:
    config = tmp_path_factory.mktemp("chart") / "txmanager.toml"
    config.write_text((DEPLOY / "config/txmanager.toml").read_text())
    return rendered(*with_programs(*EVERYTHING), "--set-file", f"config={config}", release="pay")


def test_the_chart_has_no_lint_findings():
    assert "[WARNING]" not in helm("lint", CHART)


def test_the_chart_with_a_monitor_is_what_the_manifests_say():
    ours = {(m["kind"], m["metadata"]["name"]): m for m in MANIFESTS}
    theirs = rendered(*with_programs("monitor"))
    assert theirs.keys() == ours.keys()
    for name, manifest in ours.items():
        assert theirs[name] == manifest, name


def test_each_rendered_manifest_is_what_kubernetes_accepts(everything):
    assert len(everything) > len(MANIFESTS)
    for manifest in everything.values():
        kubernetes_validate.validate(manifest, "1.31", strict=True)


def test_every_program_of_the_chart_is_a_command_with_settings_that_exist(everything, tmp_path):
    token = f'\n[[api.tokens]]\nname = "a"\nscopes = ["read"]\nsha256 = "{"0" * 64}"\n'
    ordinary = (DEPLOY / "config/txmanager.toml").read_text() + token
    gateway = (DEPLOY.parent / "config/gateway.toml").read_text().replace("public = false", "public = true")
    texts = {"ARCHIVE": ordinary + "\n[archive]\n", "GATEWAY": gateway}
    programs = set()
    for (kind, _), manifest in everything.items():
        if kind != "Deployment":
            continue
        [container] = manifest["spec"]["template"]["spec"]["containers"]
        programs |= set(container["args"])
        for entry in container["env"]:
            config = tmp_path / "c.toml"
            config.write_text(texts.get(entry["name"].split("__")[1], ordinary))
            # A value that is not a setting, or not one of its values, is refused.
            assert load(config, {entry["name"]: entry.get("value", "by-reference")}) != load(config, {})
    assert programs == {"api", "worker", "sweeper", *EVERYTHING}
    assert programs <= COMMANDS


def test_every_program_reaches_redis_and_only_workers_hold_keys(everything):
    [policy] = [m for (kind, _), m in everything.items() if kind == "NetworkPolicy"]
    [let_in] = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchExpressions"]
    for (kind, name), manifest in everything.items():
        if kind == "Deployment":
            pod = manifest["spec"]["template"]
            assert pod["metadata"]["labels"]["app.kubernetes.io/name"] in let_in["values"]
            assert ("secret" in str(pod["spec"]["volumes"])) == (name == "pay-worker")
            assert "pay-redis" in str(pod["spec"]["containers"][0]["env"])


def test_a_changed_configuration_restarts_the_programs(everything, tmp_path):
    config = tmp_path / "txmanager.toml"
    config.write_text((DEPLOY / "config/txmanager.toml").read_text() + "# changed\n")
    changed = rendered("--set-file", f"config={config}", release="pay")

    def mark(manifests: Manifests) -> str:
        pod = manifests["Deployment", "pay-worker"]["spec"]["template"]
        return str(pod["metadata"]["annotations"]["txmanager/config"])

    assert everything["ConfigMap", "pay-config"]["data"]["txmanager.toml"].strip() == (
        (DEPLOY / "config/txmanager.toml").read_text().strip()
    )
    assert mark(changed) != mark(everything)


@pytest.mark.parametrize("policy", ["", "IfNotPresent"])
def test_a_pull_policy_is_what_was_asked_for(policy):
    worker = rendered("--set", f"image.pullPolicy={policy}")["Deployment", "txmanager-worker"]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    assert container.get("imagePullPolicy", "") == policy


def test_a_redis_of_ones_own_leaves_ours_out():
    without = rendered("--set", "redis.enabled=false", "--set", "redisSecret=mine")
    assert not [name for kind, name in without if kind == "StatefulSet" or name == "txmanager-redis"]
    [container] = without["Deployment", "txmanager-api"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "mine"
    assert WORKLOADS["txmanager-api"]["containers"][0]["env"][0]["name"] == container["env"][0]["name"]
