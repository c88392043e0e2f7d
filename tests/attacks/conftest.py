"""The stages of the other suites: attacks run against the programs as operators run them."""

from __future__ import annotations

from tests.api.conftest import devnet, key, make_stage, stage

__all__ = ["devnet", "key", "make_stage", "stage"]
