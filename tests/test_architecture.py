"""Dependencies point inward: core <- adapters, runtime <- wiring <- api, cli, client <- programs.

The table below is the architecture. A new package has to be put into it; an import that is not allowed fails with
the file, the line and the rule.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ADAPTERS = {"rpc", "signing", "ledger", "chains", "archive", "tracing"}

# Each part of txmanager, and the parts it may import besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "rpc": {"core"},
    "signing": {"core", "rpc"},
    "ledger": {"core", "rpc"},
    "archive": {"core"},
    "tracing": {"core"},
    # Of signing only the types, for what a chain family is.
    "extras": {"core"},
    "settings": {"core", "signing", "extras"},
    "chains": {"core", "rpc", "signing", "settings"},
    "runtime": {"core", "settings"},
    # The only module that builds concrete adapters; everybody else takes the protocols of core.
    "wiring": {"core", "extras", "settings", "runtime", *ADAPTERS},
    "client": {"core"},
    # For others: nothing else of ours imports it, because it needs pytest.
    "testing": {"core"},
    # Static files, and what serves them.
    "console": {"core"},
    "api": {"core", "settings", "runtime", "wiring", "console"},
    "gateway": {"core", "settings", "runtime", "api"},
    "programs": {"core", "settings", "runtime", "wiring", "api", "gateway"},
    "devnet": set(),
    "stack": {"core", "settings", "extras", "console"},
    "demo": {"core", "settings", "runtime", "wiring", "client", "stack"},
    "cli": {
        *{"core", "extras", "settings", "runtime", "wiring", "client", "api", "devnet", "stack", "demo", "console"},
        *ADAPTERS,
    },
    "__main__": {"cli"},
    "": {"core", "settings", "runtime", "client"},
}

# One module of a part that may import more than the rest of it.
MODULE_MAY_IMPORT = {
    "txmanager.testing.relay": {"settings", "runtime", "wiring", "api", "client", "devnet", "ledger", "signing"},
}

# I/O, clocks, randomness and concurrency: none of them belongs into the core.
IMPURE_WORDS = """
    asyncio concurrent contextvars http io logging multiprocessing os pathlib queue random secrets select selectors
    shutil signal socket socketserver sqlite3 ssl subprocess sys tempfile threading time urllib uuid
"""
IMPURE = set(IMPURE_WORDS.split())
CORE_MAY_INSTALL = {"pydantic"}
ONE_STORE = re.compile(r"redis|valkey|\blua\b|replication|\bscripts?\b|\bX(ADD|ACK|DEL)\b|stream_?id", re.IGNORECASE)
"""Words of one store. The core knows positions and histories, which every ledger has."""


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            for name in node.names:
                # `from txmanager import core` imports a package, `from txmanager.core import x` perhaps a name.
                yield node.lineno, f"{base}.{name.name}"


def part_of(module: str) -> str | None:
    """The part of txmanager that a module belongs to; None for anything else."""
    names = module.split(".")
    if names[0] != "txmanager":
        return None
    return names[1] if len(names) > 1 and (names[1] in MAY_IMPORT or _is_part(names[1])) else ""


def _is_part(name: str) -> bool:
    return (ROOT / "txmanager" / name).is_dir() or (ROOT / "txmanager" / f"{name}.py").is_file()


def violations(source: str, module: str, *, package: bool = False) -> list[str]:
    tree = ast.parse(source)
    part = part_of(module)
    allowed = MAY_IMPORT.get(part or "", set()) | MODULE_MAY_IMPORT.get(module, set())
    found = []
    for line, name in imports(tree, module if package else module.rpartition(".")[0]):
        top = name.split(".")[0]
        other = part_of(name)
        if top == "consumers":
            found.append(f"line {line}: nothing imports consumers, not even {module}")
        if module.startswith("consumers") and other not in (None, "programs"):
            found.append(f"line {line}: consumers only start what is in txmanager.programs")
        if top == "tests":
            found.append(f"line {line}: programs do not import tests")
        if top == "pytest" and part != "testing":
            found.append(f"line {line}: pytest stays inside txmanager.testing")
        if top in ("redis", "hiredis") and part not in (None, "ledger"):
            found.append(f"line {line}: {top} stays inside txmanager.ledger")
        if top in ("sqlalchemy", "alembic") and part not in (None, "archive"):
            found.append(f"line {line}: {top} stays inside txmanager.archive")
        if part is not None and other is not None and other != part and other not in allowed:
            found.append(f"line {line}: txmanager.{part} must not import {name}")
        if part == "core":
            if top in IMPURE:
                found.append(f"line {line}: core is pure and must not import {top}")
            if top not in sys.stdlib_module_names and top != "txmanager" and top not in CORE_MAY_INSTALL:
                found.append(f"line {line}: core imports the standard library and pydantic only, not {top}")
    if part == "core":
        found += [
            f"line {line}: core has no word of one store: {text.strip()}"
            for line, text in enumerate(source.splitlines(), 1)
            if ONE_STORE.search(text)
        ]
        awaits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
        found += [f"line {node.lineno}: core awaits nothing" for node in ast.walk(tree) if isinstance(node, awaits)]
        found += [
            f"line {node.lineno}: core does no I/O, so no {node.func.id}()"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "print")
        ]
    return found


def past_the_door(source: str) -> list[str]:
    """Where a surface reaches for the ledger or the producer behind a `TxManager` (or keeps one of its own)."""
    return [
        f"line {node.lineno}: ask TxManager, not its {node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr.lstrip("_") in ("ledger", "producer")
        and not (isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value).endswith("settings"))
    ]


def modules() -> Iterator[tuple[Path, str]]:
    for top in ("txmanager", "consumers"):
        for path in sorted((ROOT / top).rglob("*.py")):
            names = path.relative_to(ROOT).with_suffix("").parts
            yield path, ".".join(names[:-1] if names[-1] == "__init__" else names)


# What runs a chain on this machine, tells a story on one, or speaks to a service that has its name in its routes.
NAMES_CHAINS = ["chains", "devnet", "stack", "demo", "client", "gateway", "runtime.gateway", "settings.gateway"]
NAMES_CHAINS += ["signing"]  # formats of key files
NAMES_CHAINS += ["extras"]  # the extras of pyproject.toml
NAMES_CHAINS += ["cli.devnet", "testing"]  # the command of devnet/, and tests for others
CHAINS = {point.name for point in entry_points(group="txmanager.chains") if point.value.startswith("txmanager.")}


def chain_names(source: str) -> list[str]:
    """Every identifier, import and text that names a chain. Docstrings and examples are for people and may."""
    tree = ast.parse(source)
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.add(id(node.value))
        elif isinstance(node, ast.keyword) and node.arg == "examples":
            prose |= {id(one) for one in ast.walk(node.value)}
    found = []
    for node in ast.walk(tree):
        if id(node) in prose:
            continue
        for word in _words(node):
            parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word)
            found += [f"line {getattr(node, 'lineno', 0)}: {word[:60]!r}" for part in parts if part.lower() in CHAINS]
    return found


def _words(node: ast.AST) -> list[str]:
    match node:
        case ast.Constant(value=str() as text):
            return text.split()
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str() as name):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ImportFrom(module=str() as module, names=names):
            return [module, *(one.name for one in names)]
        case ast.Import(names=names):
            return [one.name for one in names]
    return []


def test_no_chain_is_named_outside_its_package():
    """A third chain is a package of somebody else: what names one of ours has forgotten it."""
    exempt = tuple(f"txmanager.{part}" for part in NAMES_CHAINS)
    found = [
        f"{path.relative_to(ROOT)} {problem}"
        for path, module in modules()
        if not f"{module}.".startswith(tuple(f"{part}." for part in exempt))
        for problem in chain_names(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "from txmanager.chains.near import NearChain",
        "import txmanager.chains.evm",
        'if network.chain == "evm":\n    pass',
        'kind = "near.transfer"',
        'path = "/evm/address/nonce"',
        "def near_policy(): pass",
        "x = build(evm_url=1)",
        "class EvmThing: pass",
        'raise ValueError("belongs to EVM pools")',
    ],
)
def test_the_rule_sees_every_way_to_name_a_chain(source):
    assert chain_names(source)


def test_the_rule_lets_people_read_about_chains():
    assert chain_names('"""EVM: a gap blocks."""\nclass A:\n    b: int\n    """NEAR: harmless."""') == []
    assert chain_names("nearest = linear = 1") == []


def test_every_import_points_inward():
    found = [
        f"{path.relative_to(ROOT)} {problem}"
        for path, module in modules()
        for problem in violations(path.read_text(), module, package=path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_the_api_and_the_commands_go_through_the_door():
    found = [
        f"{path.relative_to(ROOT)} {problem}"
        for path, module in modules()
        if part_of(module) in ("api", "cli")
        for problem in past_the_door(path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("manager.ledger.read(id)", True),
        ("self._manager.producer", True),
        ("self._hub.ledger.read", True),
        ("self._ledger.draw", True),
        ("manager.read(id)", False),
        ("settings.ledger.url", False),
        ("self.settings.ledger", False),
    ],
)
def test_the_door_catches_who_passes_it(source, caught):
    assert bool(past_the_door(source)) is caught


def test_every_part_has_its_place_in_the_table():
    parts = {part_of(module) for _, module in modules()} - {None}
    assert parts <= set(MAY_IMPORT), f"add {parts - set(MAY_IMPORT)} to MAY_IMPORT"


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("txmanager.core.router", "from txmanager.ledger.memory import Memory", "must not import txmanager.ledger"),
        ("txmanager.core.router", "from ..runtime import lane", "must not import txmanager.runtime"),
        ("txmanager.core.router", "import asyncio", "core is pure"),
        ("txmanager.core.router", "import redis", "standard library and pydantic only"),
        ("txmanager.core.router", "async def f(x):\n    await x", "core awaits nothing"),
        ("txmanager.core.router", "def f():\n    open('x')", "no I/O"),
        ("txmanager.core.models", "stream_id: str", "no word of one store"),
        ("txmanager.core.models", '"""The replication id."""', "no word of one store"),
        ("txmanager.ledger.redis.codec", "from txmanager.chains.near import wire", "must not import txmanager.chains"),
        ("txmanager.signing.vault", "from txmanager import chains", "must not import txmanager.chains"),
        ("txmanager.chains.near.adapter", "import txmanager.ledger.memory", "must not import txmanager.ledger"),
        (
            "txmanager.runtime.lane.owner",
            "def f():\n    from txmanager.api import app",
            "must not import txmanager.api",
        ),
        (
            "txmanager.runtime.lane.owner",
            "from txmanager.chains.near import NearChain",
            "must not import txmanager.chains",
        ),
        ("txmanager.runtime.lane.owner", "import txmanager.ledger.memory", "must not import txmanager.ledger"),
        ("txmanager.api.routes", "from txmanager.signing import vault", "must not import txmanager.signing"),
        ("txmanager.api.routes", "import redis.asyncio", "stays inside txmanager.ledger"),
        ("txmanager.runtime.deliver.archiver", "import sqlalchemy", "stays inside txmanager.archive"),
        ("txmanager.runtime.history", "from txmanager.archive import SqlReader", "must not import txmanager.archive"),
        ("txmanager.runtime.lane.owner", "import pytest", "stays inside txmanager.testing"),
        (
            "txmanager.runtime.lane.owner",
            "from txmanager.testing import waiting",
            "must not import txmanager.testing",
        ),
        ("txmanager.testing.ledger.stage", "import txmanager.ledger.memory", "must not import txmanager.ledger"),
        ("txmanager.client.sync", "from txmanager.runtime import lane", "must not import txmanager.runtime"),
        ("txmanager.devnet.chain", "from txmanager.core import models", "must not import txmanager.core"),
        ("txmanager.cli.worker", "from consumers import worker", "nothing imports consumers"),
        ("txmanager.cli.worker", "from txmanager.programs import worker", "must not import txmanager.programs"),
        ("txmanager.programs.webhooks", "from redis.asyncio import Redis", "stays inside txmanager.ledger"),
        ("consumers.webhooks", "from txmanager.runtime import webhooks", "only start what is in txmanager.programs"),
    ],
)
def test_the_rules_catch_what_they_forbid(module, source, rule):
    assert any(rule in problem for problem in violations(source, module)), violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("txmanager.core.models", "import hashlib\nimport pydantic\nfrom txmanager.core.states import Status"),
        ("txmanager.ledger.redis.backend", "import asyncio\nimport redis.asyncio\nfrom ...core import models"),
        ("txmanager.chains.near.adapter", "from txmanager.signing import vault\nfrom txmanager.rpc import http"),
        ("txmanager.wiring", "from txmanager.ledger.redis import RedisLedger\nfrom txmanager.signing import sources"),
        ("txmanager.programs.worker", "from txmanager.runtime import lane\nfrom txmanager import settings"),
        ("consumers.lanes", "import sys\nfrom txmanager.programs.worker import main"),
    ],
)
def test_the_rules_allow_what_the_design_allows(module, source):
    assert violations(source, module) == []
