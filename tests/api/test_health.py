"""Health, readiness with reasons, metrics, documents, and refusals to start."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from tests.api.stage import Stage
from tests.waiting import until_sync

DOCS = Path(__file__).parent.parent.parent / "docs" / "http.md"


def test_readiness_names_every_part(stage: Stage):
    ready = stage.client.get("/readyz")
    assert ready.status_code == 200, "pool main works"
    assert ready.json()["status"] == "degraded", "pool spare has no lanes"
    checks = ready.json()["checks"]
    assert set(checks) == {"ledger", "pool:main", "pool:spare", "chain:localnet"}
    assert checks["pool:main"] == {"ok": True, "workers": 1, "lanes": {"active": 4}}
    assert checks["pool:spare"]["reason"] == "no_lane"
    assert "start a worker" in checks["pool:spare"]["detail"]
    assert set(stage.client.get("/readyz?for=submit").json()["checks"]) == {"ledger", "pool:main", "pool:spare"}
    assert stage.client.get("/readyz?for=fun").status_code == 422


def test_health_needs_neither_token_nor_ledger(stage: Stage):
    with httpx.Client(base_url=stage.url) as anonymous:
        assert anonymous.get("/healthz").json() == {"status": "ok"}
        assert anonymous.get("/readyz").status_code == 200


def test_a_pool_without_its_worker_is_not_ready_and_says_so(redis7, devnet, prefix, make_stage):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    stage.start()
    stage.worker.kill()

    def reason() -> str:
        return str(stage.client.get("/readyz").json()["checks"]["pool:main"].get("reason", ""))

    until_sync(lambda: reason() == "no_worker", 15)
    assert stage.client.get("/readyz").status_code == 503, "no pool works"
    assert stage.client.get("/readyz?for=submit").status_code == 200
    assert stage.transfer("while-away").status_code == 202, "intents are accepted and wait"


def test_every_metric_is_documented(stage: Stage, key: str):
    stage.transfer(key)
    text = stage.client.get("/metrics").text
    names = set(re.findall(r"^# TYPE (txmanager_\w+)", text, re.MULTILINE))
    assert {"txmanager_http_requests_total", "txmanager_http_accepted_total"} <= names
    documented = DOCS.read_text()
    shown = {name.removesuffix("_created").removesuffix("_total") for name in names}
    assert not {name for name in shown if name not in documented}


def test_the_docs_page_stands_alone(stage: Stage):
    page = stage.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(?:src|href)=['"]?(?:https?:)?//""", page.text)
    assert "<script" not in page.text
    for code in ("idempotency_key_reused", "quota_used", "unconfirmed"):
        assert f"id='{code}'" in page.text


def test_a_public_address_without_tokens_is_refused(stage: Stage, tmp_path: Path):
    import os
    import subprocess
    import sys

    text = stage.config.read_text()
    bare = re.sub(r"\[\[api\.tokens\]\].*", "", text, flags=re.DOTALL).replace("[api]", '[api]\nhost = "0.0.0.0"')
    config = tmp_path / "public.toml"
    config.write_text(bare)
    environment = {**os.environ, "TXMANAGER_CONFIG": str(config)}
    command = [sys.executable, "-m", "consumers.api"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "api.host" in ended.stderr
    assert "[[api.tokens]]" in ended.stderr


def test_the_api_stops_gracefully_with_streams_open(redis7, devnet, prefix, make_stage):
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=1)
    stage.start_api()
    with stage.client.stream("GET", "/v1/pools/main/events") as response:
        assert response.status_code == 200
        assert stage.api.stop() == 0
        assert b"retry" in response.read()
