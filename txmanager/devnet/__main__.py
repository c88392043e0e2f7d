"""`python -m txmanager.devnet`: serve, and print one JSON line when ready, for programs to read."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path

from .journal import JournalError
from .launch import Settings, describe, run
from .server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m txmanager.devnet", description=__doc__)
    defaults = Settings()
    for field in fields(Settings):
        default = getattr(defaults, field.name)
        kind = Path if field.name == "data_dir" else type(default)
        parser.add_argument("--" + field.name.replace("_", "-"), type=kind, default=default)
    settings = Settings(**vars(parser.parse_args()))

    def ready(server: Server) -> None:
        print(json.dumps(describe(server)), flush=True)

    try:
        run(settings, ready)
    except (JournalError, OSError) as cause:
        sys.exit(f"devnet: {cause}")


if __name__ == "__main__":
    main()
