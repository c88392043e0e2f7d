"""The console: static files that the API serves at `/console`. No build: what is here is what a browser gets."""

from __future__ import annotations

from pathlib import Path

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
PAGES = ("", "/intents", "/intent", "/lane", "/money", "/webhooks", "/system", "/audit")
"""Each is the same document: which page it shows is its own business."""


def files() -> dict[str, tuple[bytes, str]]:
    """Content and content type by path, below `/console`."""
    folder = Path(__file__).parent
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.suffix in _TYPES and file.name != "index.html":
            found[f"/{file.relative_to(folder).as_posix()}"] = (file.read_bytes(), _TYPES[file.suffix])
    page = ((folder / "index.html").read_bytes(), _TYPES[".html"])
    return found | dict.fromkeys(PAGES, page)
