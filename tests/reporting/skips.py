"""In CI nothing is skipped by accident: a skip is a failure, unless its reason begins with `cannot run here:`."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

ALLOWED = "cannot run here:"


def _reason(longrepr: object) -> str:
    said = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(said).removeprefix("Skipped: ")


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") != "true" or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = _reason(report.longrepr)
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {reason}\n(install what it needs, or begin the reason with {ALLOWED!r})"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse(report)
    return report
