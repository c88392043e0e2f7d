"""The documentation page: one HTML file without scripts or outside resources, written from the OpenAPI document."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from txmanager.api.problems import ANSWERS, SERVER_ERRORS

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f4f2;border-radius:4px}code{padding:.1em .3em}
pre{padding:.8rem;overflow-x:auto}details{border:1px solid #ddd;border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;min-width:3.5rem}table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;border-bottom:1px solid #e4e4e4;padding:.35rem .6rem .35rem 0}
@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}code,pre{background:#242424}
details{border-color:#444}td,th{border-color:#333}a{color:#8ab4f8}}
"""


def render(document: dict[str, Any]) -> bytes:
    info = document["info"]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} API</h1><p>{escape(info['description'])}</p>",
        "<p>The whole description for machines is <a href='/openapi.json'>/openapi.json</a>. Send ",
        "<code>Authorization: Bearer TOKEN</code>. Retry any submit with the same <code>Idempotency-Key</code>: ",
        "the answer is the stored record, never a second effect.</p><h2>Routes</h2>",
    ]
    for path, methods in document["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    parts.append("<h2>Shapes</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(
            f"<details id='schema-{escape(name)}'><summary><b>{escape(name)}</b> {escape(_words(schema))}</summary>"
        )
        parts.append(f"<pre>{escape(json.dumps(schema, indent=2))}</pre></details>")
    parts.append("<h2>Problems</h2><p>Every path may also answer: ")
    parts.append(", ".join(f"<code>{code}</code>" for code in sorted(error.code for error in SERVER_ERRORS)))
    parts.append(".</p><table><tr><th>Code<th>Status<th>What was kept<th>What to do</tr>")
    for kind, answer in ANSWERS.items():
        parts.append(
            f"<tr id='{kind.code}'><td><code>{kind.code}</code><td>{answer.status}"
            f"<td>{escape(answer.kept)}<td>{escape(answer.do)}</tr>"
        )
    parts.append("</table></body></html>")
    return "".join(parts).encode()


def _words(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).split("\n")[0]


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(p['name'])}</code><td>{escape(p['in'])}<td>{escape(p['description'])}</tr>"
        for p in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        name = body["$ref"].rpartition("/")[2]
        rows.append(f"<tr><td>body<td>JSON<td><a href='#schema-{name}'>{name}</a></tr>")
    rows += [
        f"<tr><td>{status}<td><td>{escape(answer['description'])}</tr>"
        for status, answer in sorted(operation["responses"].items())
        if status != "default"
    ]
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f"{escape(operation['summary'])}</summary>"
        f"<p>{escape(operation.get('description', 'Needs no token.'))}</p><table>{''.join(rows)}</table></details>"
    )
