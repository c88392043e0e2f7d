"""The recorded answers of a real node (nearcore of 2026-08-22, protocol 87), and how an answer of ours is held to one.

Compared are the HTTP status, the shape (every field, every list's length) and every value, money and gas included.
What may differ is named in `MAY_DIFFER`: what belongs to a chain and not to the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.devnet.resign import our_public_key

Json = Any

MAY_DIFFER = {
    # names of things on a chain
    "hash", "id", "receipt_id", "block_hash", "chunk_hash", "prev_hash", "prev_block_hash", "genesis_hash", "signature",
    "latest_block_hash", "earliest_block_hash", "latest_state_root", "epoch_id", "next_epoch_id", "next_bp_hash",
    "last_final_block", "last_ds_final_block", "prev_state_root", "random_value", "SuccessReceiptId", "block_body_hash",
    "requested_transaction_hash", "block_merkle_root", "outcome_root", "tx_root", "outgoing_receipts_root",
    "encoded_merkle_root", "chunk_headers_root", "chunk_receipts_root", "chunk_tx_root", "approvals", "proof",
    "receipt_ids",
    # where a chain stands
    "height", "block_height", "prev_height", "height_created", "height_included", "latest_block_height",
    "earliest_block_height",
    "epoch_start_height", "genesis_height", "block_ordinal", "timestamp", "timestamp_nanosec", "latest_block_time",
    "earliest_block_time", "genesis_time", "uptime_sec", "nonce", "nonces", "ak_nonce", "tx_nonce", "delegate_nonce",
    "max_block_height", "encoded_length", "chunk_endorsements",
    # who runs it
    "author", "version.version", "version.build", "version.commit", "version.rustc_version",
    "validators", "validator_account_id", "validator_public_key", "node_key", "node_public_key", "rpc_addr",
    "protocol_treasury_account",
    # how it was set up
    "total_supply", "epoch_length", "transaction_validity_period",
}  # fmt: skip
"""Fields whose values belong to the chain that was asked. Their types must still agree."""


_NESTED = tuple(f".{name}" for name in MAY_DIFFER if "." in name)


ANY_KEY = "ed25519:<any>"


@dataclass(frozen=True)
class Case:
    name: str
    http: int
    request: Json
    answer: Json


def cases() -> Iterator[Case]:
    with (Path(__file__).parent / "answers.jsonl").open() as lines:
        for line in lines:
            told = json.loads(line)
            yield Case(told["case"], told["http"], told["request"], told["answer"])


_KEY = re.compile(r"ed25519:[1-9A-HJ-NP-Za-km-z]{43,44}\b")
_HASH = re.compile(r"\b[1-9A-HJ-NP-Za-km-z]{42,44}\b")
_NUMBER = re.compile(r"\b\d{3,}\b")


def with_our_keys(value: Json) -> Json:
    return json.loads(_KEY.sub(lambda found: our_public_key(found.group()), json.dumps(value)))


def differences(theirs: Json, ours: Json, where: str = "") -> list[str]:
    name = where.rpartition(".")[2].partition("[")[0]
    if (name in MAY_DIFFER or where.endswith(_NESTED)) and not isinstance(theirs, dict):
        same = isinstance(ours, type(theirs)) or (theirs is None) == (ours is None)
        return [] if same else [f"{where}: {type(theirs).__name__} became {type(ours).__name__}"]
    if isinstance(theirs, dict) and isinstance(ours, dict):
        found = [f"{where}.{key}: missing" for key in sorted(theirs.keys() - ours.keys())]
        found += [f"{where}.{key}: not in the recording" for key in sorted(ours.keys() - theirs.keys())]
        for key in theirs.keys() & ours.keys():
            found += differences(theirs[key], ours[key], f"{where}.{key}")
        return sorted(found)
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return [f"{where}: {len(theirs)} items became {len(ours)}"]
        return [
            line
            for n, pair in enumerate(zip(theirs, ours, strict=True))
            for line in differences(*pair, f"{where}[{n}]")
        ]
    if isinstance(theirs, str) and isinstance(ours, str):
        same = _plain(theirs) == _plain(ours) or (theirs == ANY_KEY and _KEY.fullmatch(ours) is not None)
    else:
        same = type(theirs) is type(ours) and theirs == ours
    return [] if same else [f"{where}: {json.dumps(theirs)[:160]} became {json.dumps(ours)[:160]}"]


def _plain(text: str) -> str:
    """A sentence without the names and heights in it. Amounts stand alone in their field and are compared."""
    if text.isdigit():
        return text
    return _NUMBER.sub("N", _HASH.sub("H", _KEY.sub("K", text)))
