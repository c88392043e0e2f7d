"""Secrets are named, read at the last moment, and never printed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txmanager.core.errors import InvalidSettings
from txmanager.settings import Reference, Settings, Url, load, problems

SECRET = "hunter2-very-secret"
API_KEY = "3f9ad8c0b1e24f6b8a7c"


def everything_printed(settings: Settings) -> str:
    return "\n".join([repr(settings), str(settings), json.dumps(settings.shown()), repr(settings.ledger.url)])


def test_a_password_from_the_environment_is_used_but_never_printed():
    for environment in (
        {"TXMANAGER__LEDGER__URL": f"redis://bob:{SECRET}@h:1/0"},
        {"TXMANAGER__LEDGER__URL": "redis://h:1/0", "TXMANAGER__LEDGER__PASSWORD": SECRET},
    ):
        settings = load(None, environment)
        assert SECRET in settings.ledger.reveal_url({})
        assert SECRET not in everything_printed(settings)


def test_an_api_key_in_an_rpc_url_is_never_printed():
    for url in (
        f"https://rpc.example/v3/{API_KEY}",
        f"https://rpc.example/?key={API_KEY}",
        f"https://{API_KEY}:x@r.io",
    ):
        network = {"chain": "near", "rpc": [{"url": url}]}
        settings = Settings.model_validate({"networks": {"a": network}})
        shown = everything_printed(settings).replace(f"{API_KEY}:***", "")
        assert API_KEY not in shown


def test_the_hash_of_a_token_is_shortened_when_shown():
    token = {"name": "a", "sha256": "0123456789abcdef" * 4, "scopes": ["read"]}
    settings = Settings.model_validate({"api": {"tokens": [token]}})
    assert "0123456789" not in everything_printed(settings)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (f"[ledger]\npassword = '{SECRET}'", "ledger.password"),
        (f"[ledger]\nurl = 'redis://:{SECRET}@h'", "ledger.url"),
        (f"[networks.a]\nchain = 'near'\nrpc = [{{ url = 'https://u:{SECRET}@h' }}]", "networks.a.rpc[0].url"),
    ],
)
def test_a_secret_in_the_file_is_refused_without_repeating_it(tmp_path, text, field):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(InvalidSettings, match=r'write \{ env = "NAME" \} or \{ file = "path" \}') as caught:
        load(path, {})
    assert caught.value.field == field
    assert SECRET not in str(caught.value)


def test_a_wrong_value_is_never_repeated_in_the_error(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        f"[ledger]\ndurability = '{SECRET}'\nprefix = '{SECRET} '\nreplicas = '{SECRET}'\nurl = '{SECRET}'\n"
        f"[networks.a]\nchain = '{SECRET}'\nrpc = '{SECRET}'\n[pools.a]\nnetwork = 'x'\nkeys = ['{SECRET}']"
    )
    wrong = problems(path, {})
    assert len(wrong) == 7
    assert not any(SECRET in str(problem) for problem in wrong)


def test_references_are_read_when_used(tmp_path):
    secret = tmp_path / "password"
    secret.write_text(f"{SECRET}\n")
    config = tmp_path / "c.toml"
    config.write_text(f"[ledger]\nurl = {{ env = 'URL' }}\npassword = {{ file = '{secret}' }}\nusername = 'bob'")
    settings = load(config, {})
    assert settings.ledger.reveal_url({"URL": "redis://h:1/2"}) == f"redis://bob:{SECRET}@h:1/2"
    assert '"env": "URL"' in json.dumps(settings.shown())


def test_a_referenced_url_is_held_to_the_same_rules(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("[ledger]\nurl = { env = 'URL' }")
    with pytest.raises(InvalidSettings, match=r'ledger.durability: must be "replicas"'):
        load(config, {}).ledger.reveal_url({"URL": "redis+sentinel://h:1/mymaster"})


def test_check_names_references_that_lead_nowhere(tmp_path):
    config = tmp_path / "c.toml"
    (tmp_path / "empty").write_text("\n")
    config.write_text(
        f"[ledger]\nurl = {{ env = 'NOT_SET' }}\npassword = {{ file = '{tmp_path}/empty' }}\n"
        f"[networks.a]\nchain = 'near'\nrpc = [{{ url = {{ file = '{tmp_path}/none' }} }}]"
    )
    assert [str(problem) for problem in problems(config, {})] == [
        "ledger.url: environment variable NOT_SET is not set; export it",
        f"ledger.password: {tmp_path}/empty is empty; put the secret into it",
        f"networks.a.rpc[0].url: cannot read {tmp_path}/none: No such file or directory",
    ]


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSettings, match=r"x: cannot read .*binary: not a text file"):
        Reference(file=str(tmp_path / "binary")).read("x")


@given(st.text(min_size=1), st.text(min_size=1))
def test_credentials_survive_any_character(username, password):
    from urllib.parse import unquote, urlsplit

    try:
        url = Url("redis://h:1/0").with_credentials(username, password)
    except UnicodeEncodeError:
        return
    userinfo = urlsplit(url.reveal()).netloc.rpartition("@")[0]
    assert [unquote(part) for part in userinfo.split(":")] == [username, password]


def test_credentials_of_the_url_stay_where_nothing_else_is_given():
    url = Url("redis://bob:pw@h:1,h:2/0")
    assert url.with_credentials(None, None).reveal() == "redis://bob:pw@h:1,h:2/0"
    assert url.with_credentials(None, "new").reveal() == "redis://bob:new@h:1,h:2/0"
    assert Url("redis://h:1").with_credentials(None, "new").reveal() == "redis://:new@h:1"
    assert str(url) == "redis://bob:***@h:1,h:2/0"
