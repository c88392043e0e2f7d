"""`[signer]`: what can match nothing, or cannot be told apart, does not load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.signing.boxes import AWS
from txmanager.core.errors import InvalidSettings
from txmanager.settings import load
from txmanager.wiring import build_services, open_shares

SIGNER = """
[signer]
listen = "unix:/tmp/s"
state = "/tmp/state"
[signer.clients.one]
uid = 1
keys = ["near-1", "evm-1"]
[signer.clients.two]
uid = 2
keys = ["near-1"]
[signer.keys.near-1]
chain = "near"
account = "relayer.near"
source = "env:NEAR_KEY"
policy = { max_value = "1", max_fee = "1", max_per_day = "1", receivers = ["game.near", "*.game.near"] }
[signer.keys.evm-1]
chain = "evm"
chain_id = 1
source = "env:EVM_KEY"
[signer.keys.evm-1.policy]
max_value = "1"
max_fee = "1"
max_per_day = "1"
receivers = ["0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48"]
methods = ["0xA9059CBB"]
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("uid = 2", "uid = 1", "signer.clients.two: has the same uid as one"),
        ("0xA0b8", "0xa0B8", "signer.keys.evm-1.policy.receivers: has a wrong checksum"),
        ("0xA0b8", "*.A0b8", "signer.keys.evm-1.policy.receivers: must be an address"),
        ("0xA9059CBB", "transfer", "signer.keys.evm-1.policy.methods: 'transfer' is not a selector"),
        ('"game.near"', '"Game.near"', "signer.keys.near-1.policy.receivers: 'Game.near' is not an account id"),
        ('"game.near"', '"*game.near"', "signer.keys.near-1.policy.receivers: '*game.near' is not an account id"),
    ],
)
def test_a_policy_that_would_refuse_everything_by_a_slip_does_not_load(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = tmp_path / "signer.toml"
    path.write_text(SIGNER)
    assert load(path).signer is not None
    assert SIGNER.count(old) == 1
    path.write_text(SIGNER.replace(old, new))
    with pytest.raises(InvalidSettings) as caught:
        load(path)
    assert says in str(caught.value)


def test_a_workers_share_of_the_quota_reaches_the_limiter_that_its_lanes_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The KMS is away; the pinned key lets the worker start."""
    pytest.importorskip("botocore", reason="needs txmanager[aws]")
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    path, address = tmp_path / "txmanager.toml", "0x" + "11" * 20
    path.write_text(f"""
[networks.anvil]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "http://127.0.0.1:1" }}]
[signers.aws]
provider = "aws-kms"
region = "x"
endpoint = "http://127.0.0.1:1"
per_second = 400.0
[pools.evm]
network = "anvil"
keys = [{{ source = "aws:alias/payer", public_key = "{address}" }}]
""")
    shares = open_shares()
    [service] = build_services(load(path), shares)[0].values()
    [checked] = service.chain._signers.values()  # type: ignore[attr-defined]
    limiter = checked.signer._provider.limiter
    assert limiter._per_second == 400.0
    shares.among(4)
    assert limiter._workers == 4
