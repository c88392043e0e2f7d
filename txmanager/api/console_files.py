"""The console's files, with the headers that keep it to itself: no other host, no inline script, no HTML from text."""

from __future__ import annotations

import hashlib

from txmanager import console
from txmanager.api.call import Call, Handler, Reply
from txmanager.api.operation import Operation
from txmanager.api.rest import row

_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


def console_rows() -> list[Operation]:
    return [
        row("GET", f"/console{path}", "", "", None, _serve(body, content_type))
        for path, (body, content_type) in console.files().items()
    ]


def _serve(body: bytes, content_type: str) -> Handler:
    mark = f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode()
    headers = [(b"content-type", content_type.encode()), (b"etag", mark), *_HEADERS]

    async def handle(call: Call) -> Reply:
        if call.headers.get(b"if-none-match") == mark:
            return Reply(304, b"", headers[1:])
        return Reply(200, body, list(headers))

    return handle
