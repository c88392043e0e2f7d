"""What thousands of intents in memory share or do without: a worker of a thousand lanes has sixteen of each at once."""

from __future__ import annotations

import tracemalloc

from txmanager.core.models import IntentId
from txmanager.ledger.redis import codec

_COUNT = 200


def test_what_is_encoded_takes_no_more_memory_than_its_bytes():
    values = [{"memo": "x" * 140, "amount": str(n)} for n in range(_COUNT)]
    codec.dumps(values[0])
    tracemalloc.start()
    kept = [codec.dumps(value) for value in values]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(kept) < 500  # the encoder's own buffer is some 4,000


def test_intents_share_their_kind_and_what_they_do_not_have():
    fields = {b"k": b"near.function_call", b"f": b"f" * 64, b"m": b""}
    (one, _), (other, _) = [codec.intent(IntentId.parse(f"default/pool/{n}"), fields, b"{}") for n in range(2)]
    assert one.kind is other.kind
    assert one.metadata is other.metadata
    assert one.limits is other.limits
