"""A configuration is either complete and consistent, or refused with the field and the fix."""

from __future__ import annotations

from pathlib import Path

import pydantic
import pytest

from txmanager.core.errors import InvalidSettings
from txmanager.settings import Settings, load, problems

NETWORK = '[networks.test-net]\nchain = "near"\nrpc = [{ url = "https://rpc.example" }]\n'
EVM_POOL = """
[networks.chain]
chain = 'evm'
chain_id = 1
rpc = [{ url = 'https://x' }]
[pools.evm]
network = 'chain'
keys = ['env:K']
"""
POOL = NETWORK + '[pools.main]\nnetwork = "test-net"\naccount = "relayer.testnet"\n'


@pytest.fixture
def write(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text)
        return path

    return write


def test_no_file_gives_the_documented_defaults(write):
    settings = load(environment={})
    assert str(settings.ledger.url) == "redis://127.0.0.1:6379/0"
    assert settings.ledger.durability == "fsync"
    assert settings.ledger.retention_s == 7 * 24 * 3600
    assert settings.pools == {}


def test_the_file_is_the_named_one_else_the_variable_else_the_working_directory(write, tmp_path):
    (tmp_path / "txmanager.toml").write_text('ledger.prefix = "directory"')
    (tmp_path / "other.toml").write_text('ledger.prefix = "variable"')
    named = write('ledger.prefix = "named"')
    assert load(named, {"TXMANAGER_CONFIG": "other.toml"}).ledger.prefix == "named"
    assert load(None, {"TXMANAGER_CONFIG": "other.toml"}).ledger.prefix == "variable"
    assert load(None, {}).ledger.prefix == "directory"


def test_the_environment_wins_over_the_file(write):
    path = write(POOL + "[ledger]\nreplicas = 2\n")
    environment = {
        "TXMANAGER__LEDGER__REPLICAS": "3",
        "TXMANAGER__LEDGER__URL": "redis://elsewhere:1/0",
        "TXMANAGER__POOLS__MAIN__WINDOW": "1",
        "TXMANAGER__POOLS__MAIN__KEYS": '["env:ONE", "env:TWO"]',
        "TXMANAGER__NETWORKS__TEST_NET__RPC": '[{ url = "https://b.example", direct = true }]',
        "TXMANAGER_PASSPHRASE": "not a setting",
    }
    settings = load(path, environment)
    assert settings.ledger.replicas == 3
    assert settings.ledger.reveal_url({}) == "redis://elsewhere:1/0"
    assert settings.pools["main"].window == 1
    assert settings.pools["main"].keys == ("env:ONE", "env:TWO")
    assert settings.networks["test-net"].rpc[0].direct


def test_settings_are_frozen(write):
    with pytest.raises(pydantic.ValidationError):
        setattr(load(environment={}).ledger, "prefix", "other")  # noqa: B010


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[ledger]\nurll = 1", "ledger.urll: unknown key in {path}; did you mean 'url'?"),
        ("[legder]", "legder: unknown key in {path}; did you mean 'ledger'?"),
        (
            "zzz = 1",
            "zzz: unknown key in {path}; known here: api, archive, gateway, ledger, monitor, networks, pools, signer, ",
        ),
        (
            POOL + "policy = { max_depost = 1 }",
            "pools.main.policy.max_depost: unknown key in {path}; did you mean 'max_deposit'?",
        ),
        (
            POOL + 'policy = { own_account = ["addkey"] }',
            "pools.main.policy.own_account[0]: must be 'add_key', 'delete_key', 'delete_account', 'deploy_contract'",
        ),
        (
            POOL + 'policy = { own_account = "add_key" }',
            "pools.main.policy.own_account: must be a list",
        ),
        (
            POOL + 'policy = { own_account = ["delete_account"], max_deposit = 5 }',
            "pools.main.policy.own_account: delete_account gives the whole balance away, which max_deposit never",
        ),
        (
            POOL + 'policy = { own_account = ["delete_account"], max_cost = 5 }',
            "pools.main.policy.own_account: delete_account gives the whole balance away, which max_cost never",
        ),
        (
            POOL + 'policy = { delegate_actions = ["delete_account"] }',
            "pools.main.policy.delegate_actions[0]: must be 'add_key', 'create_account'",
        ),
        (
            POOL + f'policy = {{ max_deposit = "{2**256}" }}',
            "pools.main.policy.max_deposit: must be less than",
        ),
        (
            NETWORK.replace("url =", "dirct = true, url ="),
            "networks.test-net.rpc[0].dirct: unknown key in {path}; did you mean 'direct'?",
        ),
        (
            POOL + "[pools.main.policy.harmless_call]\nreceiver_id='a'\nmethod_name='b'\nargz='c'",
            "pools.main.policy.harmless_call.argz: unknown key in {path}; did you mean 'args'?",
        ),
        ("ledger = 5", "ledger: must be a table"),
        ("[ledger]\nreplicas = 0", "ledger.replicas: must be greater than or equal to 1"),
        ("[ledger]\nreplicas = 'two'", "ledger.replicas: must be a whole number"),
        ("[ledger]\nprefix = 'a{b}'", "ledger.prefix: must be 1 to 63 of A-Z a-z 0-9 _ . - and start with a letter"),
        ("[ledger]\nprefix = 5", "ledger.prefix: must be text in quotes"),
        ("[ledger]\ndurability = 'sync'", "ledger.durability: must be 'fsync', 'replicas' or 'none'"),
        ("[ledger]\nurl = 'localhost'", "ledger.url: is not a URL: it needs a scheme"),
        ("[ledger]\nurl = 'http://h'", "ledger.url: must begin with redis://"),
        ("[ledger]\nurl = 'redis+cluster://h:1'", 'ledger.durability: must be "replicas" with Sentinel or Cluster'),
        ("[ledger]\nurl = 'do+https://h'", "ledger.seal: is needed with Durable Objects"),
        (
            "[ledger]\nurl = 'do+https://h'\nseal = [{ env = 'SEAL' }]",
            'ledger.seal: is needed with Durable Objects, and ledger.seal_mode = "require"',
        ),
        ("[ledger]\nurl = 5", "ledger.url: must be a URL in quotes, or a reference to one"),
        ("[ledger]\nurl = { evn = 'X' }", "ledger.url: is not a reference; write {{ env ="),
        ("[ledger]\npassword = { env = 'X', file = 'y' }", "ledger.password: is not a reference; write {{ env ="),
        ("[networks.a]\nchain = 'near'", "networks.a.rpc: is required; add it"),
        ("[networks.a]\nchain = 'near'\nrpc = []", "networks.a.rpc: must have at least one entry"),
        ("[networks.a]\nchain = 'near'\nrpc = 'https://x'", "networks.a.rpc: must be a list"),
        (
            "[networks.a]\nchain = 'btc'\nrpc = [{ url = 'https://x' }]",
            "networks.a.chain: must be the name of an ins",
        ),
        ("[networks.'a b']\nchain = 'near'\nrpc = [{ url = 'https://x' }]", "networks.a b: must be 1 to 63 of"),
        ("[networks.a]\nchain = 'evm'\nrpc = [{ url = 'https://x' }]", "networks.a.chain_id: is required; add it"),
        (
            "[networks.a]\nchain = 'evm'\nchain_id = 1\nfinality = 0\nrpc = [{ url = 'https://x' }]",
            'networks.a.finality: must be "finalized" or a number of blocks',
        ),
        (NETWORK + "finality = 'soon'", "networks.test-net.finality: must be 'FINAL', 'EXECUTED' or"),
        (
            "[pools.a]\nnetwork = 'x'",
            "pools.a.network: names no [networks.x]; add it, or use one of: there is none yet",
        ),
        (NETWORK + "[pools.a]\nnetwork = 'test-net'", "pools.a.account: is required on NEAR"),
        (POOL + "keys = ['ed25519:3x']", "pools.main.keys[0]: a key source starts with 'file:', 'env:', 'vault:'"),
        (EVM_POOL + "window = 9\nmax_window = 8", "pools.evm.max_window: must not be below window, which is 9"),
        (EVM_POOL + "max_window = 300\nmax_inflight = 64", "pools.evm.max_window: must not exceed max_inflight"),
        (EVM_POOL + "window = 200\nmax_inflight = 64", "pools.evm.window: must not exceed max_inflight"),
        (
            EVM_POOL.replace("keys = ['env:K']", "keyless = 'any'") + "max_window = 64",
            "pools.evm.max_window: belongs to pools with keys",
        ),
        (POOL + "window = 200", "pools.main.window: must not exceed max_inflight, which is 128"),
        (POOL + "policy = { max_deposit = 1e24 }", "pools.main.policy.max_deposit: must be whole digits"),
        (POOL + "policy = { max_deposit = -1 }", "pools.main.policy.max_deposit: must be greater than or equal to 0"),
        ("[worker]\npools = ['x']", "worker.pools: names no [pools.x]; add it or remove it"),
        ("[api]\nhost = '0.0.0.0'", "api.host: 0.0.0.0 is open to others, but there is no [[api.tokens]]; add one"),
        ("[[api.tokens]]\nname = 'a'\nscopes = ['read']\nsha256 = 'abc'", "api.tokens[0].sha256: must be the SHA-256"),
        (
            f"[[api.tokens]]\nname = 'a'\nscopes = ['root']\nsha256 = '{'0' * 64}'",
            "api.tokens[0].scopes[0]: must be 'submit', 'read' or 'operate'",
        ),
        (
            f"[[api.tokens]]\nname = 'a'\nscopes = []\nsha256 = '{'0' * 64}'",
            "api.tokens[0].scopes: must have at least one entry",
        ),
        (
            f"[[api.tokens]]\nname = 'a'\nscopes = ['read']\nsha256 = '{'0' * 64}'\nlimits = {{ pools = ['x'] }}",
            "api.tokens[0].limits.pools: names no [pools.x]",
        ),
        (
            f"[[api.tokens]]\nname = 'a'\nscopes = ['read']\nsha256 = '{'0' * 64}'\n" * 2,
            "api.tokens[1].name: 'a' is there twice",
        ),
        ("[ledger\n", "config: {path} is not valid TOML: "),
    ],
)
def test_what_is_wrong_is_said_with_field_and_fix(write, text, said):
    path = write(text)
    with pytest.raises(InvalidSettings) as caught:
        load(path, {})
    assert str(caught.value).startswith(said.format(path=path))
    assert "\n" not in str(caught.value)
    assert [str(problem) for problem in problems(path, {})] == [str(caught.value)]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"TXMANAGER__LEDGER__URLL": "x"},
            "ledger.urll: unknown key in TXMANAGER__LEDGER__URLL; did you mean 'url'?",
        ),
        (
            {"TXMANAGER__LEDGER__REPLICAS": "x"},
            "ledger.replicas: must be a whole number (in TXMANAGER__LEDGER__REPLICAS)",
        ),
        ({"TXMANAGER__LEDGER__": "x"}, "TXMANAGER__LEDGER__: names no setting"),
        (
            {"TXMANAGER__LEDGER__URL__HOST": "x"},
            "TXMANAGER__LEDGER__URL__HOST: goes below ledger.url, which is no table",
        ),
        ({"TXMANAGER__WORKER__POOLS": "[1"}, "TXMANAGER__WORKER__POOLS: begins like a TOML list or table, but is none"),
    ],
)
def test_a_wrong_variable_is_named(write, environment, said):
    path = write('[ledger]\nurl = "redis://h"')
    with pytest.raises(InvalidSettings) as caught:
        load(path, environment)
    assert str(caught.value).startswith(said)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidSettings, match=r"config: cannot read .*nowhere.toml: No such file or directory"):
        load(tmp_path / "nowhere.toml", {})


def test_check_names_everything_that_is_wrong_at_once(write):
    path = write("[ledger]\nreplicas = 0\nfoo = 1\n[api]\nport = 70000")
    assert [problem.field for problem in problems(path, {})] == ["ledger.replicas", "ledger.foo", "api.port"]


def test_loopback_needs_no_tokens_and_a_public_address_does(write):
    for host, public in (("127.0.0.1", False), ("::1", False), ("localhost", False), ("::", True), ("api.lan", True)):
        settings = Settings.model_validate({"api": {"tokens": [token()], "host": host}})
        assert settings.api.public is public


def token() -> dict[str, object]:
    return {"name": "a", "sha256": "0" * 64, "scopes": ["read"]}


EVM = """
[networks.e]
chain = "evm"
chain_id = 1
rpc = [{ url = "http://127.0.0.1:1" }]

[networks.n]
chain = "near"
rpc = [{ url = "http://127.0.0.1:1" }]
"""
ALICE = "0x" + "aB" * 20


@pytest.mark.parametrize(
    ("pools", "says"),
    [
        ('[pools.a]\nnetwork = "e"\nkeyless = ["alice"]', "must be addresses"),
        (f'[pools.a]\nnetwork = "e"\nkeyless = ["{ALICE}"]\nkeys = ["env:K"]', "cannot stand beside keys"),
        (f'[pools.a]\nnetwork = "n"\naccount = "a.near"\nkeyless = ["{ALICE}"]', "pools.a.keyless: unknown key"),
        (
            '[pools.a]\nnetwork = "e"\n[pools.a.policy]\nown_account = ["add_key"]',
            "own_account: unknown key",
        ),
        (
            f'[pools.a]\nnetwork = "e"\nkeyless = ["{ALICE}"]\n[pools.b]\nnetwork = "e"\nkeyless = ["{ALICE.lower()}"]',
            "is in pool a of that chain, too",
        ),
    ],
)
def test_an_address_has_one_pool_and_one_sort(pools, says, tmp_path):
    path = tmp_path / "t.toml"
    path.write_text(EVM + pools)
    with pytest.raises(InvalidSettings, match=says):
        load(path, {})


def test_keyless_addresses_are_kept_in_one_form(tmp_path):
    path = tmp_path / "t.toml"
    path.write_text(f'{EVM}[pools.a]\nnetwork = "e"\nkeyless = ["{ALICE}"]\n[pools.b]\nnetwork = "e"\nkeyless = "any"')
    settings = load(path, {})
    assert (settings.pools["a"].keyless, settings.pools["b"].keyless) == ((ALICE.lower(),), "any")
