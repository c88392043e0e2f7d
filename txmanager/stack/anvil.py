"""An EVM chain beside the devnet: anvil, when it is installed, with its state kept in the data folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from txmanager.core.errors import Misconfigured

VARIABLE = "TXMANAGER_ANVIL"
PHRASE_VARIABLE = "TXMANAGER_ANVIL_PHRASE"
PHRASE = "test test test test test test test test test test test junk"
"""Anvil's own, known to everybody: its addresses are worth nothing outside of this chain."""
CHAIN_ID = 31337


def find_anvil(environment: Mapping[str, str] | None = None) -> str:
    """The program that TXMANAGER_ANVIL names, else the one on the path."""
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "anvil")
    found = shutil.which(named)
    if found is None:
        raise Misconfigured(
            f"--evm needs anvil, and {named!r} was not found; install foundry, or name the program in {VARIABLE}"
        )
    return found


def anvil_argv(program: str, folder: Path, port: int, keys: int, block_ms: float) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return [
        *(program, "--host", "127.0.0.1", "--port", str(port), "--chain-id", str(CHAIN_ID), "--silent"),
        *("--mnemonic", PHRASE, "--accounts", str(spare_account(keys) + 1), "--block-time", f"{block_ms / 1000:g}"),
        *("--state", str(folder / "state.json"), "--state-interval", "1"),
    ]


def spare_account(keys: int) -> int:
    """The index of a funded address that no lane uses: for a wallet that tries the gateway."""
    return max(9, keys)


def anvil_answers(port: int) -> bool:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}).encode()
    request = Request(f"http://127.0.0.1:{port}", body, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=1.0) as reply:
            return bool(json.loads(reply.read()).get("result") == hex(CHAIN_ID))
    except (URLError, OSError, ValueError, AttributeError):
        return False


def anvil_config(port: int, keys: int, gateway_port: int) -> str:
    """What is added to the configuration of an embedded stack."""
    return f"""
[networks.anvil]
chain = "evm"
chain_id = {CHAIN_ID}
rpc = [{{ url = "http://127.0.0.1:{port}", direct = true }}]

[pools.evm]
network = "anvil"
keys = ["mnemonic:{PHRASE_VARIABLE}:{keys}"]

[gateway]
port = {gateway_port}
"""
