"""A real OTLP receiver: rotel, which prints every span it gets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.servers.environments import install
from tests.servers.processes import end, free_port, make_folder, spawn
from tests.waiting import until_sync

LOCK = Path(__file__).parent / "rotel.lock"
_LINE = re.compile(r"^\s*(?:-> )?([A-Za-z_. ]+?)\s*: (.*)$")


@dataclass(frozen=True)
class Span:
    service: str
    trace: str
    id: str
    parent: str
    name: str
    began: int
    ended: int
    failed: bool
    facts: dict[str, str]


class Receiver:
    def __init__(self) -> None:
        self.port = free_port()
        self._folder = make_folder("rotel")
        self._log = self._folder / "log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        [program] = install(LOCK).glob("lib/python3*/site-packages/rotel/rotel-agent")
        program.chmod(0o755)
        listen = ["--otlp-http-endpoint", f"127.0.0.1:{self.port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}"]
        say = ["--exporter", "blackhole", "--debug-log", "traces", "--debug-log-verbosity", "detailed"]
        self._child = spawn([str(program), "start", *listen, *say], self._log)
        until_sync(lambda: "Starting Rotel" in self._log.read_text(), 30, what="the receiver listens")
        return self

    def __exit__(self, *_: object) -> None:
        end(self._child)

    def spans(self, trace: str) -> list[Span]:
        """Those of one trace, in the order of their begin."""
        found: list[Span] = []
        service, about, facts, inside = "", dict[str, str](), dict[str, str](), False
        for line in [*self._log.read_text().splitlines(), "ResourceSpans #end"]:
            if line.startswith(("ResourceSpans #", "Span #")):
                if about:
                    found.append(_span(service, about, facts))
                about, facts, inside = {}, {}, line.startswith("Span #")
            elif match := _LINE.match(line):
                name, told = match.groups()
                word = told.removeprefix("Str(").removesuffix(")")
                if name == "service.name":
                    service = word
                elif inside:
                    (facts if "-> " in line else about)[name.removeprefix("txmanager.")] = word
        return sorted([span for span in found if span.trace == trace], key=lambda span: (span.began, span.ended))


def _span(service: str, about: dict[str, str], facts: dict[str, str]) -> Span:
    times = int(about["Start time"]), int(about["End time"])
    failed = about["Status code"] == "STATUS_CODE_ERROR"
    return Span(service, about["Trace ID"], about["ID"], about["Parent ID"], about["Name"], *times, failed, facts)
