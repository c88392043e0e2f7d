"""What only this store promises."""

from __future__ import annotations

import pytest

from tests.ledger.conftest import durable_stage
from tests.ledger.durable.promises import DURABLE_PROMISES, leave_nothing


@pytest.mark.parametrize("promise", DURABLE_PROMISES)
async def test_promise(promise: str, durable, prefix: str):
    async with durable_stage(durable.url, prefix) as stage:
        await DURABLE_PROMISES[promise](stage)


async def test_ten_thousand_intents_leave_no_row_after_the_retention(durable, prefix: str):
    async with durable_stage(durable.url, prefix, timeout_s=30.0) as stage:
        await leave_nothing(stage, 10_000)
