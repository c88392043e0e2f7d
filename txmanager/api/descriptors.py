"""How many connections this process can hold at all: every one takes a file descriptor, and so does all the rest."""

from __future__ import annotations

import os
import resource

import structlog

from txmanager.api.places import SPARE
from txmanager.core.errors import Misconfigured

_OWN = 128
"""For the ledger, nodes, logs and what opens for a moment."""
_LEAST = 16


def connection_limit(wanted: int) -> int:
    """`wanted`, or as many as the limit of open files leaves after it was raised as far as it goes."""
    own = _open_now() + _OWN + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + own:
        soft = wanted + own if hard == resource.RLIM_INFINITY else min(hard, wanted + own)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted + own:
        return wanted
    room = soft - own
    if room < _LEAST:
        raise Misconfigured(
            f"the limit of open files is {hard}, which leaves no room for connections; "
            f"raise it (ulimit -n, LimitNOFILE) to at least {own + _LEAST}, better to {own + wanted}"
        )
    structlog.get_logger("api").warning(
        "max_connections lowered",
        max_connections=room,
        configured=wanted,
        open_files=hard,
        fix=f"raise the limit of open files (ulimit -n, LimitNOFILE) to {own + wanted}, or lower api.max_connections",
    )
    return room


def _open_now() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 16
