"""A two-minute story that checks itself: many clients, duplicate retries, a killed worker, and what came of it."""

from txmanager.demo.report import Report
from txmanager.demo.story import DemoOptions, tell

__all__ = ["DemoOptions", "Report", "tell"]
