"""Writes docs/configuration.md: every key with its type and default from the settings models, and its meaning from the
comments of the files in config/, which a test holds complete. `make reference`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from txmanager.settings.schema import build_schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLES = ("single.toml", "evm.toml", "gateway.toml", "near-testnet.toml")
NAMED = ("networks", "pools", "signers", "monitor.networks", "signer.clients", "signer.keys", "api.doors")
"""Tables whose keys are names that you choose."""
INTRO = """# Configuration

txmanager reads one TOML file: `--config FILE`, else the one that `TXMANAGER_CONFIG` names, else `./txmanager.toml`.
Environment variables override it, with two underscores for each step down: `TXMANAGER__LEDGER__URL`,
`TXMANAGER__API__PORT`. A value that begins with `[` or `{` is read as TOML.

- Unknown keys are errors. `txmanager config check` names everything that is wrong.
- Secrets never stand in the file: write `{ env = "NAME" }` or `{ file = "path" }` instead.
- Amounts are whole numbers of the smallest unit (yoctoNEAR, wei); put them in quotes.
- `txmanager config show` prints all settings with their defaults. `txmanager config schema` prints a JSON schema for
  your editor: save it, and begin your file with `#:schema ./txmanager.schema.json`.

[config/](../config) has a file for each kind of installation. This page is made from the settings models by
`make reference`.
"""


# What the examples explain for several keys at once, or not at all. `*.key` means the key in any table.
MORE = {
    "networks.NAME.chain": "Which chain family serves it.",
    "networks.NAME.agreement_for_done": "Success needs as many nodes as `agreement`, too.",
    "networks.NAME.genesis_hash": "Pins the chain beside `chain_id` (NEAR).",
    "networks.NAME.rpc.url": "The endpoint. By reference where it holds an API key.",
    "networks.NAME.rpc.direct": "One node, not a balancer: only such a one proves quickly that a transaction is dead.",
    "networks.NAME.rpc.max_request_bytes": "What it takes in one request. The smallest limits the size of intents.",
    "signers.NAME.provider": "Where the keys are: an HSM, AWS KMS or a `txmanager signer` ([signers](signers.md)).",
    "signers.NAME.module": "The path of the HSM vendor's library.",
    "signers.NAME.token": "The label of the HSM's token.",
    "signers.NAME.pin": "The PIN of the HSM's token, by reference.",
    "signers.NAME.timeout_s": "A signature that takes longer counts as no answer.",
    "signers.NAME.region": "The AWS region.",
    "signers.NAME.endpoint": "Another KMS endpoint, for example of a VPC.",
    "signers.NAME.profile": "A profile of the AWS configuration.",
    "signers.NAME.max_concurrent": "Signatures asked for at once.",
    "signers.NAME.per_second": "The account's quota for signatures.",
    "signers.NAME.address": "Where the `txmanager signer` listens: `unix:/path` or `host:port`.",
    "*.ca": "PEM file: who signs the other side's certificates.",
    "*.certificate": "PEM file: our own certificate. For a client of a signer: the name in its certificate.",
    "*.key": "PEM file: the key of our certificate.",
    "pools.NAME.max_window": "How far the window of an EVM lane may grow by itself while nodes accept more.",
    "pools.NAME.network": "The network that its lanes are on.",
    "pools.NAME.account": "Whose keys they are, on chains where keys have an account.",
    "pools.NAME.keep_final_bytes_s": "How long signed bytes are kept after finality, for `lanes replay`.",
    "pools.NAME.policy.delegate_methods": "Methods that users' delegates may call.",
    "pools.NAME.policy.delegate_max_gas": "Gas that a delegate may attach.",
    "pools.NAME.policy.delegate_max_bytes": "The size of a delegate.",
    "pools.NAME.policy.delegate_min_blocks_left": "A delegate that expires sooner is rejected.",
    "pools.NAME.policy.harmless_call.receiver_id": "The contract to call.",
    "pools.NAME.policy.harmless_call.method_name": "Its method.",
    "pools.NAME.policy.harmless_call.args": "Its arguments, as JSON.",
    "pools.NAME.policy.harmless_call.gas": "The gas to attach.",
    "pools.NAME.webhooks.name": "What deliveries are remembered by.",
    "pools.NAME.webhooks.url": "Where events are posted to.",
    "pools.NAME.webhooks.secret": "Signs each delivery.",
    "pools.NAME.webhooks.statuses": "Which states are posted.",
    "pools.NAME.webhooks.retry_for_s": "Afterwards a delivery becomes a dead letter.",
    "pools.NAME.webhooks.timeout_s": "How long one delivery may take.",
    "pools.NAME.webhooks.tenants": "Whose events are posted; without it everybody's.",
    "*.metrics_host": "Where metrics are served for Prometheus.",
    "*.metrics_port": "The port of the metrics; without it there are none.",
    "archive.url": "`sqlite:///PATH` or `postgresql://user:password@host/database`.",
    "archive.max_lag": "So many final records of a lane wait for the archive.",
    "archive.keep_s": "How long ended intents are kept; for ever where it is left out.",
    "archive.index_metadata": "Names of callers' metadata that lists can be filtered by.",
    "archive.period_s": "How often lanes are looked at.",
    "archive.metrics_host": "Where the archiver's metrics are served.",
    "archive.metrics_port": "Their port; nowhere where it is left out.",
    "monitor.reconcile_every_s": "How often owners are asked for a check without a cause.",
    "monitor.stuck_after_s": "The lowest nonce that waits longer is an alert.",
    "monitor.overdue_after_s": "... and longer than this another one.",
    "monitor.networks.NAME.low": "An account, or an address, with less is low: an alert.",
    "monitor.networks.NAME.high": "What a low one is filled up to, by the treasury.",
    "monitor.networks.NAME.treasury": "The pool that pays top-ups; its budget is the cap.",
    "monitor.networks.NAME.every_s": "A purse is paid at most once in this time.",
    "monitor.networks.NAME.gas_key.low": "The same for the balance of a gas key ...",
    "monitor.networks.NAME.gas_key.high": "... which is filled up by TransferToGasKey.",
    "monitor.networks.NAME.allowance.low": "A function-call key with less is an alert: `txmanager keys renew`.",
    "api.port": "Where to listen. 0 takes a free port.",
    "api.max_connections": "Open connections; more are closed.",
    "api.max_streams": "Open event streams of all tokens.",
    "api.max_streams_per_token": "Open event streams of one token.",
    "api.header_timeout_s": "A client whose headers take longer is cut off.",
    "api.body_timeout_s": "A client whose body takes longer is cut off.",
    "api.tokens.name": "Appears in the audit and in metrics.",
    "api.tokens.limits.per_second": "Requests a second.",
    "api.tokens.limits.burst": "Requests at once.",
    "api.tokens.limits.max_queued_bytes": "What its open intents take together: each request's bytes and 1,024.",
    "api.tokens.limits.max_lanes": 'Addresses that it may bring into being where a pool is `keyless = "any"`.',
    "*.amount": 'How much: a number and a unit in quotes (`"10 NEAR"`), or digits of the smallest unit.',
    "*.per": 'The span: `"1h"`, `"30d"`, or `"ever"`.',
    "*.network": "Whose money it counts.",
    "*.required_prefixes": "A caller's `budget_key` must begin with one of these.",
    "api.tokens.limits.pools": "Which pools it may use.",
    "api.tokens.limits.kinds": "Which kinds of intents it may submit.",
    "api.tokens.limits.max_deposit": "What one intent may move.",
    "api.tokens.limits.max_cost": "What one intent may cost at worst, fees included.",
    "gateway.host": "Where to listen.",
    "gateway.port": "Where to listen.",
    "gateway.memory_senders": 'Senders kept with `store = "memory"`; idle ones go first.',
    "gateway.kept_bytes": "Bytes of all transactions that are kept.",
    "gateway.per_sender": "Waiting transactions of one sender.",
    "gateway.max_body_bytes": "The largest request.",
    "gateway.max_answer_bytes": "The largest answer.",
    "gateway.max_connections": "Open connections.",
    "gateway.tokens.name": "Appears in logs.",
    "api.tokens.sha256": 'The SHA-256 of the token, 64 hexadecimal digits: `printf %s "$TOKEN" | sha256sum`.',
    "*.sha256": "The SHA-256 of the token, 64 hexadecimal digits.",
    "gateway.per_second.client": "Calls a second of one client address.",
    "gateway.per_second.sender": "Raw transactions a second of one sender.",
    "signer.clients.NAME.keys": "Which keys this client may use.",
    "signer.keys.NAME.chain": "Which chain family's transactions it signs.",
    "signer.keys.NAME.policy.receivers": "Accounts or addresses that may be called or paid.",
}


def comments() -> dict[str, str]:
    """`table.key` -> what stands above it. A key that is commented out counts, too."""
    found: dict[str, str] = {}
    files = [*EXAMPLES, *sorted(p.name for p in (ROOT / "config").glob("*.toml") if p.name not in EXAMPLES)]
    for name in files:
        table, above = "", []
        for line in (ROOT / "config" / name).read_text().splitlines():
            bare = line.removeprefix("#").strip()
            if match := re.fullmatch(r"\[+([\w.\-]+)\]+.*", bare):
                table, above = _general(match[1]), []
            elif (match := re.match(r"([a-z_0-9]+) = (.*)", bare)) and not bare.startswith("or "):
                inline = match[2].partition("  # ")[2] if not line.startswith("#") else ""
                text = " ".join([*above, inline]).strip()
                key = f"{table}.{match[1]}".lstrip(".")
                if text and key not in found:
                    found[key] = text
                above = []
            elif line.startswith("#"):
                above.append(bare)
            else:
                above = []
    return found


def _general(table: str) -> str:
    for named in NAMED:
        if table.startswith(f"{named}."):
            rest = table.removeprefix(f"{named}.").split(".")[1:]
            return ".".join([named, "NAME", *rest])
    return table


def tables(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every table with its model, in the order of the file."""
    defs = schema["$defs"]

    def models(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if "$ref" in node:
            return models(defs[node["$ref"].rpartition("/")[2]])
        forms = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        found = [model for form in forms for model in models(form)]
        return [*found, node] if "properties" in node else found

    def walk(path: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for model in models(node):
            yield path, model
            for key, below in model["properties"].items():
                where = f"{path}.{key}".lstrip(".")
                if isinstance(inner := below.get("additionalProperties"), Mapping) and models(inner):
                    yield from walk(f"{where}.NAME", inner)
                elif below.get("type") == "array" and models(below.get("items", {})):
                    yield from walk(where, below["items"])
                elif models(below):
                    yield from walk(where, below)

    yield from walk("", schema)


def _type(node: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    if "$ref" in node:
        return _type(defs[node["$ref"].rpartition("/")[2]], defs)
    if any(form.get("pattern") == "^[0-9]+$" for form in node.get("anyOf", ())):
        return "amount"
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if "enum" in node:
        return ", ".join(f"`{json.dumps(one)}`" for one in node["enum"])
    if forms := [form for form in (*node.get("anyOf", ()), *node.get("oneOf", ())) if form.get("type") != "null"]:
        return " or ".join(dict.fromkeys(_type(form, defs) for form in forms))
    if "properties" in node or "additionalProperties" in node:
        return "table"
    words = {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}
    if node.get("type") == "array":
        return f"list of {_type(node.get('items', {}), defs)}"
    limits = [
        f"{sign} {node[key]:,}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if isinstance(node.get(key), int | float) and node[key] < 10**15
    ]
    return " ".join([words.get(str(node.get("type")), "text or reference"), *limits])


def _either(forms: list[Mapping[str, Any]]) -> dict[str, Any]:
    """A key that several chains have, each in its own form."""
    defaults = {key: value for form in forms for key, value in form.items() if key in ("default", "description")}
    return {"anyOf": [{key: value for key, value in form.items() if key not in defaults} for form in forms], **defaults}


def _default(value: object) -> str:
    if isinstance(value, Mapping) and set(value) == {"_text"}:
        value = value["_text"]
    return json.dumps(value)


def render() -> str:
    schema, meanings = build_schema(), comments()
    defs = schema["$defs"]
    lines = [INTRO]
    grouped: dict[str, dict[str, tuple[Mapping[str, Any], bool]]] = {}
    for path, model in tables(schema):
        rows = grouped.setdefault(path, {})
        for key, node in model["properties"].items():
            known = rows.get(key)
            forms = [known[0], node] if known else [node]
            merged = node if len(forms) == 1 or forms[0] == node else _either(forms)
            rows[key] = (merged, key in model.get("required", ()) and (known is None or known[1]))
    for path, rows in grouped.items():
        shown = []
        for key, (node, required) in rows.items():
            where = f"{path}.{key}".lstrip(".")
            if where in grouped or f"{where}.NAME" in grouped or not path:
                continue
            default = "required" if required else _default(node["default"]) if node.get("default") is not None else ""
            meaning = MORE.get(where) or meanings.get(where) or node.get("description") or MORE.get(f"*.{key}", "")
            default = f"`{default}`" if default and not required and len(default) < 60 else default[:60]
            meaning = " ".join(meaning.split()).replace("|", "\\|")
            shown.append(f"| `{key}` | {_type(node, defs)} | {default} | {meaning} |")
        if shown:
            lines += [f"\n## `[{path}]`\n", "| key | type | default | meaning |", "| --- | --- | --- | --- |", *shown]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")
