"""Logging in from a terminal: a token buys a code, and a browser opens the console with it.

The code stands in the URL's fragment, which no browser sends to a server. It works once, for a minute.
"""

from __future__ import annotations

import json
import os
import sys
import webbrowser
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from txmanager.core.errors import InvalidInput, NotAllowed, Unavailable

_NO_TOKENS = 409


def login_url(api_url: str, token: str | None) -> str:
    """The console's address, logged in. Without configured tokens everybody on this machine is."""
    if not api_url.startswith(("http://", "https://")):
        raise InvalidInput("--url", "must start with http:// or https://")
    api_url = api_url.rstrip("/")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(f"{api_url}/v1/sessions/codes", b"", headers, method="POST")
    try:
        with urlopen(request, timeout=10) as reply:
            return f"{api_url}/console#code={json.load(reply)['code']}"
    except HTTPError as error:
        if error.code == _NO_TOKENS:
            return f"{api_url}/console"
        raise NotAllowed(f"the API gave no code: {_detail(error)}") from None
    except (URLError, OSError, ValueError, LookupError) as error:
        raise Unavailable(f"the API at {api_url} does not answer: {getattr(error, 'reason', error)}") from None


def _detail(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, LookupError, TypeError):
        return f"status {error.code}"


def open_browser(url: str) -> bool:
    """False where there is no screen to open one on."""
    graphical = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    try:
        return bool(graphical) and webbrowser.open(url)
    except webbrowser.Error:
        return False
