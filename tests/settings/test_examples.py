"""The examples in config/ are valid, and single.toml documents every key there is."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from txmanager.chains.near.policy import SETTLED, HarmlessCall, NearPolicy
from txmanager.chains.near.settings import Finality, HarmlessCallSettings, NearPolicySettings
from txmanager.settings import Settings, load
from txmanager.settings.family import find
from txmanager.settings.gateway import GatewaySettings
from txmanager.settings.monitor import MonitoredNetwork
from txmanager.settings.signers import (
    ClientSettings,
    GuardedKeySettings,
    KeyPolicySettings,
    SignerProgramSettings,
    TlsSettings,
)

CONFIG = Path(__file__).parent.parent.parent / "config"
EXAMPLES = sorted(CONFIG.glob("*.toml"))


def test_there_is_an_example_for_every_kind_of_installation():
    assert {path.stem for path in EXAMPLES} >= {"single", "sentinel", "cluster", "near-testnet"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads(path):
    settings = load(path, {})
    assert settings.pools or settings.gateway or settings.signer


def test_the_example_urls_are_of_their_kind():
    schemes = {path.stem: Settings.model_validate(tomllib.loads(path.read_text())).ledger.url for path in EXAMPLES}
    assert str(schemes["sentinel"]).startswith("redis+sentinel://")
    assert str(schemes["cluster"]).startswith("redis+cluster://")


def models(kind: type[BaseModel] = Settings) -> set[type[BaseModel]]:
    found = {kind}
    for field in kind.model_fields.values():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found |= models(part)
    return found


def test_every_key_is_documented_in_the_single_example():
    """Used, or shown in a comment."""
    text = (CONFIG / "single.toml").read_text()
    documented = models() | models(find("near").network) | models(find("near").pool)
    documented -= models(GatewaySettings) | models(SignerProgramSettings) | models(MonitoredNetwork)
    keys = {name for model in documented for name in model.model_fields}
    assert not missing(keys - {"gateway", "signer"}, text)


def missing(keys: set[str], text: str) -> set[str]:
    return {key for key in keys if not re.search(rf"(?<![\w-]){key} =|\b{key}[\].]", text)}


def test_every_key_of_the_gateway_is_in_its_example_with_its_default():
    text = (CONFIG / "gateway.toml").read_text()
    assert not missing({name for model in models(GatewaySettings) for name in model.model_fields}, text)
    given = tomllib.loads(text)["gateway"]
    assert GatewaySettings.model_validate(given) == GatewaySettings()


def test_every_key_of_the_signer_is_in_its_example():
    text = (CONFIG / "signer.toml").read_text()
    parts = {SignerProgramSettings, ClientSettings, GuardedKeySettings, KeyPolicySettings, TlsSettings}
    assert not missing({name for model in parts for name in model.model_fields}, text)


def test_defaults_in_the_single_example_are_the_defaults():
    """It says that it shows the defaults: the sections that need no choice must equal them."""
    given = tomllib.loads((CONFIG / "single.toml").read_text())
    given["api"].pop("tokens")
    shown = Settings().shown()
    assert given["ledger"] == shown["ledger"]
    assert given["worker"] == shown["worker"]
    assert given["monitor"] | {"networks": {}} == shown["monitor"]
    assert given["api"] | {"tokens": [], "doors": {}} == shown["api"]


def test_the_policy_is_the_adapters_policy():
    """One word for one thing: every limit of the NEAR adapter can be set, and none that it does not know."""
    budgets = {"budget", "budget_per_key", "required_prefixes"}  # held at acceptance, whatever the chain
    assert set(NearPolicySettings.model_fields) - budgets == {field.name for field in fields(NearPolicy)}
    assert set(HarmlessCallSettings.model_fields) == {field.name for field in fields(HarmlessCall)}
    assert set(get_args(Finality)) == set(SETTLED)


def test_policy_defaults_in_the_single_example_are_the_adapters():
    policy = load(CONFIG / "single.toml", {}).pools["relayer"].policy
    chosen = {"max_deposit", "budget", "budget_per_key", "required_prefixes"}
    given = policy.model_dump(exclude_none=True, exclude=chosen)
    assert given == {name: getattr(NearPolicy(), name) for name in given}
