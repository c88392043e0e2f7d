"""HTTP over a `TxManager`: submit, read, wait, watch, operate. See docs/http.md."""

from txmanager.api.app import build_app

__all__ = ["build_app"]
