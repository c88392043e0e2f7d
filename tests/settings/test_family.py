"""Chains are found by entry point: only those that are named are loaded, and what is wrong with one is said."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from txmanager.core.errors import InvalidSettings
from txmanager.core.kinds import KindPath
from txmanager.settings import Settings, family

NEAR = {"chain": "near", "rpc": [{"url": "https://rpc.example"}]}


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, family.GROUP)


@pytest.fixture
def offer(monkeypatch):
    """Instead of the installed chains."""

    def offered(*points: EntryPoint) -> None:
        monkeypatch.setattr(family, "entry_points", lambda group: points)
        family.find.cache_clear()

    yield offered
    family.find.cache_clear()


def test_our_own_chains_are_found_like_any_other():
    assert family.installed() == ["evm", "near"]
    assert family.find("near").name == "near"


def test_a_chain_that_is_not_installed_is_refused_by_name(offer):
    offer(point("near", "txmanager.chains.near.family:FAMILY"))
    with pytest.raises(InvalidSettings, match=r"chain: must be the name of an installed chain; there are: near"):
        family.find("evm")


def test_two_packages_that_offer_one_chain_are_refused(offer):
    offer(point("near", "txmanager.chains.near.family:FAMILY"), point("near", "elsewhere:FAMILY"))
    with pytest.raises(InvalidSettings, match=r"near is offered by elsewhere:FAMILY and txmanager.*; uninstall one"):
        family.find("near")
    with pytest.raises(Exception, match="uninstall one of them"):
        Settings.model_validate({"networks": {"a": NEAR}})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nowhere.to.be:FOUND", "x of nowhere.to.be:FOUND cannot be loaded: ModuleNotFoundError"),
        ("txmanager.chains.near.family:reading", "is no ChainFamily of that name"),
        ("txmanager.chains.near.family:FAMILY", "is no ChainFamily of that name"),
    ],
)
def test_a_chain_that_cannot_be_used_is_named_with_its_package(offer, value, says):
    offer(point("x", value))
    with pytest.raises(InvalidSettings, match=says):
        family.find("x")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kinds": {"other.transfer": Settings}}, "every kind of chain near must begin with near."),
        ({"paths": {"near.transfer": KindPath("/v1/other")}}, "must begin with /v1/near/"),
    ],
)
def test_a_chain_takes_no_name_of_another(change, says):
    near = family.find("near")
    given = {name: getattr(near, name) for name in near.__slots__}
    with pytest.raises(ValueError, match=says):
        family.ChainFamily(**{**given, **change})


def test_only_the_chains_that_the_configuration_names_are_loaded(tmp_path: Path):
    """A process that holds keys runs no code of another chain."""
    config = tmp_path / "near.toml"
    key = "ed25519:3KyUuch8pYP47krBq4DosFEVBMR5wDTMQ8AThzM8kAEcBQEpsPdYTZ2FPX5ZnSoLrerjwg66hwwJaW1wHzprd5k3"
    config.write_text(
        '[networks.localnet]\nchain = "near"\nrpc = [{ url = "http://127.0.0.1:9" }]\n'
        '[pools.main]\nnetwork = "localnet"\naccount = "a.near"\nkeys = ["env:RELAYER_KEY"]\n'
    )
    program = (
        "import sys; from pathlib import Path; from txmanager.settings import load; from txmanager import wiring\n"
        f"settings = load(Path({str(config)!r}))\n"
        "services, _ = wiring.build_services(settings); kinds = wiring.build_kinds(settings)\n"
        "assert len(services) == 1 and all(kind.startswith('near.') for kind in kinds), kinds\n"
        "print(sorted(name for name in sys.modules if name.startswith('txmanager.chains.evm')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], env={"RELAYER_KEY": key}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.strip() == "[]", ended.stderr
