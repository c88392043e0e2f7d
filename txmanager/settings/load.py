"""From a file and the environment to `Settings`, or to one sentence that names the field and the fix.

`TXMANAGER__LEDGER__URL` overrides `url` of `[ledger]`: two underscores for each step down. A value that begins with
`[` or `{` is read as TOML. The environment wins over the file; a secret may stand in the environment as it is, in
the file only by reference.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel, ValidationError

from txmanager.core.errors import InvalidSettings
from txmanager.settings.models import Settings, family_of
from txmanager.settings.pools import NetworkSettings, PoolSettings
from txmanager.settings.secrets import HOW_TO_REFER, Url
from txmanager.settings.signers import PROVIDERS, KmsSettings

CONFIG_VARIABLE = "TXMANAGER_CONFIG"
ENVIRONMENT_PREFIX = "TXMANAGER__"
DEFAULT_FILE = "txmanager.toml"

Tree = dict[str, Any]
Where = dict[tuple[str, ...], str]
"""Which environment variable gave a value."""


def find_file(path: Path | None, environment: Mapping[str, str]) -> Path | None:
    """The file that was named, else that of TXMANAGER_CONFIG, else ./txmanager.toml when there is one."""
    if path is not None:
        return path
    if named := environment.get(CONFIG_VARIABLE):
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).exists() else None


def load(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The configuration, or `InvalidSettings` for the first thing that is wrong with it."""
    settings, wrong = _read(path, environment)
    if settings is None:
        raise wrong[0]
    return settings


def problems(path: Path | None = None, environment: Mapping[str, str] | None = None) -> list[InvalidSettings]:
    """Everything that is wrong, secrets that cannot be read included."""
    environment = os.environ if environment is None else environment
    settings, wrong = _read(path, environment)
    for field, reference in settings.references() if settings else ():
        try:
            reference.read(field, environment)
        except InvalidSettings as problem:
            wrong.append(problem)
    return wrong


def _read(path: Path | None, environment: Mapping[str, str] | None) -> tuple[Settings | None, list[InvalidSettings]]:
    environment = os.environ if environment is None else environment
    path = find_file(path, environment)
    where: Where = {}
    try:
        tree = _parse(path) if path else {}
        if wrong := [*_written_secrets(tree), *_written_webhook_secrets(tree)]:
            return None, wrong
        _override(tree, environment, where)
        return Settings.model_validate(tree), []
    except InvalidSettings as problem:
        return None, [problem]
    except ValidationError as error:
        return None, [_in_words(details, where, path, tree) for details in _each(error)]


def _parse(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidSettings("config", f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidSettings("config", f"{path} is not a text file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings("config", f"{path} is not valid TOML: {error}") from None


def _written_secrets(tree: Tree) -> Iterator[InvalidSettings]:
    """A file is copied, committed and pasted: no secret stands in it."""
    ledger = tree.get("ledger")
    if isinstance(ledger, dict):
        if isinstance(ledger.get("password"), str):
            yield InvalidSettings("ledger.password", f"is a secret and does not belong into the file; {HOW_TO_REFER}")
        if _has_password(ledger.get("url")):
            yield InvalidSettings("ledger.url", f"carries a password; remove it, and at ledger.password {HOW_TO_REFER}")
    networks = tree.get("networks")
    for name, network in networks.items() if isinstance(networks, dict) else ():
        rpc = network.get("rpc") if isinstance(network, dict) else None
        for n, endpoint in enumerate(rpc if isinstance(rpc, list) else ()):
            if isinstance(endpoint, dict) and _has_password(endpoint.get("url")):
                yield InvalidSettings(
                    f"networks.{name}.rpc[{n}].url", f"carries a password; {HOW_TO_REFER} with the whole URL in it"
                )


def _written_webhook_secrets(tree: Tree) -> Iterator[InvalidSettings]:
    pools = tree.get("pools")
    for name, pool in pools.items() if isinstance(pools, dict) else ():
        webhooks = pool.get("webhooks") if isinstance(pool, dict) else None
        for n, webhook in enumerate(webhooks if isinstance(webhooks, list) else ()):
            if isinstance(webhook, dict) and isinstance(webhook.get("secret"), str):
                yield InvalidSettings(
                    f"pools.{name}.webhooks[{n}].secret",
                    f"is a secret and does not belong into the file; {HOW_TO_REFER}",
                )


def _has_password(url: object) -> bool:
    return isinstance(url, str) and "://" in url and Url(url).has_password


def _override(tree: Tree, environment: Mapping[str, str], where: Where) -> None:
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        steps = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")
        if not all(steps):
            raise InvalidSettings(variable, "names no setting; use for example TXMANAGER__LEDGER__URL")
        node = tree
        names: list[str] = []
        for step in steps[:-1]:
            names.append(_matching(node, step))
            node = node.setdefault(names[-1], {})
            if not isinstance(node, dict):
                raise InvalidSettings(variable, f"goes below {'.'.join(names)}, which is no table")
        names.append(_matching(node, steps[-1]))
        where[tuple(names)] = variable
        node[names[-1]] = _value(variable, text)


def _matching(node: Mapping[str, Any], step: str) -> str:
    """The key of the file that a variable means: shells know neither small letters by habit nor dashes and dots."""
    wanted = step.lower()
    return next((key for key in node if key.lower().replace("-", "_").replace(".", "_") == wanted), wanted)


def _value(variable: str, text: str) -> object:
    if not text.startswith(("[", "{")):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise InvalidSettings(variable, "begins like a TOML list or table, but is none") from None


_IN_WORDS = {
    "missing": "is required; add it",
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
    "string_type": "must be text in quotes",
    "model": "must be a table",
    "dict": "must be a table",
    "tuple": "must be a list",
    "frozen_set": "must be a list",
    "too_short": "must have at least one entry",
}
"""pydantic's error types (or how they begin) in the words of someone who writes a TOML file."""


def _each(error: ValidationError) -> Iterator[Any]:
    """Every finding, but not that a list is too short because one of its entries is wrong."""
    found = error.errors(include_input=False)
    places = [details["loc"] for details in found]
    for details in found:
        below = (place for place in places if len(place) > len(details["loc"]))
        if not any(place[: len(details["loc"])] == details["loc"] for place in below):
            yield details


def _in_words(details: Any, where: Where, path: Path | None, tree: Tree) -> InvalidSettings:
    steps: tuple[str | int, ...] = tuple(step for step in details["loc"] if step != "[key]")
    field = ""
    for step in steps:
        field += f"[{step}]" if isinstance(step, int) else f".{step}" if field else step
    variable = where.get(tuple(map(str, steps)))
    kind = str(details["type"])
    if kind == "extra_forbidden":
        known = _fields_at(steps[:-1], tree)
        alike = difflib.get_close_matches(str(steps[-1]), known, 1, 0.6)
        hint = f"did you mean {alike[0]!r}?" if alike else f"known here: {', '.join(sorted(known))}"
        return InvalidSettings(field, f"unknown key in {variable or path or 'the configuration'}; {hint}")
    if kind == "string_pattern_mismatch":
        words = "must be the SHA-256 of the token: 64 small hexadecimal digits"
    else:
        words = next((said for begin, said in _IN_WORDS.items() if kind.startswith(begin)), str(details["msg"]))
    words = words.removeprefix("Value error, ").replace("Input should be ", "must be ")
    return InvalidSettings(field, f"{words} (in {variable})" if variable else words)


def _fields_at(steps: Sequence[str | int], tree: Tree) -> list[str]:
    """The keys that are allowed in the table at this place."""
    model: type[BaseModel] = Settings
    left = list(steps)
    if len(left) > 1 and left[0] in ("networks", "pools"):
        model, left = _chain_model(str(left[0]), str(left[1]), tree), left[2:]
    if len(left) > 1 and left[0] == "signers":
        provider = tree["signers"][str(left[1])].get("provider")
        model, left = PROVIDERS.get(str(provider), KmsSettings), left[3:] if provider in PROVIDERS else []
    inside = False
    for step in left:
        if inside:
            # The name of an entry of dict[str, Model], or the index of one of tuple[Model, ...].
            inside = False
            continue
        annotation = model.model_fields[str(step)].annotation
        models = [kind for kind in (annotation, *get_args(annotation)) if _is_model(kind)]
        inside = get_origin(annotation) in (dict, tuple)
        model = models[0]
    return list(model.model_fields)


def _chain_model(table: str, name: str, tree: Tree) -> type[BaseModel]:
    """A network or a pool has the keys of its chain."""
    network = name if table == "networks" else tree["pools"][name].get("network")
    family = family_of(tree.get("networks", {}).get(network, {}).get("chain"))
    if table == "networks":
        return family.network if family else NetworkSettings
    return family.pool if family else PoolSettings


def _is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
