"""The protocol's JSON for blocks, chunks and the node itself.

Roots, proofs and signatures are placeholders of the right shape; everything a client acts on is real.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib import resources

import orjson

from .model import Block
from .network import Network, View
from .validate import PROTOCOL_VERSION
from .views import JSON, b58, receipt_view, tx_view

_ZERO_HASH = "1" * 32
_NO_SIGNATURE = "ed25519:" + "1" * 64
_VERSION = {"version": "2.13.0-txmanager-devnet", "build": "devnet", "commit": "devnet", "rustc_version": ""}


def _producer(block: Block) -> str:
    return f"node{block.producer}"


def chunk_header_view(block: Block, network: Network) -> JSON:
    return {
        "chunk_hash": b58(block.chunk_hash),
        "prev_block_hash": b58(block.prev_hash),
        "outcome_root": _ZERO_HASH,
        "prev_state_root": b58(block.prev_hash),
        "encoded_merkle_root": b58(block.hash),
        "encoded_length": sum(tx.size for tx in block.txs),
        "height_created": block.height,
        "height_included": block.height,
        "shard_id": 0,
        "gas_used": block.gas_used,
        "gas_limit": network.config.receipt_gas_limit,
        "rent_paid": "0",
        "validator_reward": "0",
        "balance_burnt": str(block.burnt),
        "outgoing_receipts_root": _ZERO_HASH,
        "tx_root": b58(block.hash) if block.txs else _ZERO_HASH,
        "validator_proposals": [],
        "bandwidth_requests": {"V1": {"requests": []}},
        "congestion_info": {
            "allowed_shard": 0,
            "buffered_receipts_gas": "0",
            "delayed_receipts_gas": "0",
            "receipt_bytes": 0,
        },
        "proposed_split": None,
        "signature": _NO_SIGNATURE,
    }


def chunk_view(block: Block, network: Network) -> JSON:
    price = network.config.purchase_price
    return {
        "author": _producer(block),
        "header": chunk_header_view(block, network),
        "transactions": [tx_view(tx) for tx in block.txs],
        "receipts": [receipt_view(receipt, price) for receipt in block.receipts],
    }


def block_view(block: Block, network: Network) -> JSON:
    chain = network.chain
    before = chain.by_hash.get(block.prev_hash, block)
    final = chain.by_hash.get(before.prev_hash, before)
    genesis = b58(chain.genesis.hash)
    header = {
        "height": block.height,
        "prev_height": block.prev_height,
        "hash": b58(block.hash),
        "prev_hash": b58(block.prev_hash),
        "epoch_id": genesis,
        "next_epoch_id": genesis,
        "prev_state_root": b58(block.prev_hash),
        "chunk_receipts_root": _ZERO_HASH,
        "chunk_headers_root": b58(block.chunk_hash),
        "chunk_tx_root": b58(block.hash) if block.txs else _ZERO_HASH,
        "outcome_root": _ZERO_HASH,
        "chunks_included": 1,
        "challenges_root": _ZERO_HASH,
        "timestamp": int(block.timestamp_ms * 1_000_000),
        "timestamp_nanosec": str(int(block.timestamp_ms * 1_000_000)),
        "random_value": b58(block.hash),
        "validator_proposals": [],
        "chunk_mask": [True],
        "gas_price": str(network.config.gas_price),
        "block_ordinal": block.height - chain.genesis.height + 1,
        "rent_paid": "0",
        "validator_reward": "0",
        "total_supply": str(block.supply),
        "challenges_result": [],
        "last_final_block": b58(final.hash),
        "last_ds_final_block": b58(before.hash),
        "next_bp_hash": genesis,
        "block_merkle_root": b58(block.hash),
        "epoch_sync_data_hash": None,
        "approvals": [_NO_SIGNATURE],
        "block_body_hash": b58(block.hash),
        "chunk_endorsements": [[1]],
        "shard_split": None,
        "signature": _NO_SIGNATURE,
        "latest_protocol_version": PROTOCOL_VERSION,
    }
    return {"author": _producer(block), "header": header, "chunks": [chunk_header_view(block, network)]}


def _time(block: Block) -> str:
    return datetime.fromtimestamp(block.timestamp_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _key_of(network: Network, name: str) -> str:
    return "ed25519:" + b58(hashlib.sha256(network.chain.genesis.hash + name.encode()).digest())


def status_view(network: Network, view: View) -> JSON:
    head, oldest = view.head, network.chain.blocks[0]
    validator = f"node{view.node % network.config.producers}"
    genesis = b58(network.chain.genesis.hash)
    return {
        "version": _VERSION,
        "chain_id": network.config.chain_id,
        "genesis_hash": genesis,
        "protocol_version": PROTOCOL_VERSION,
        "latest_protocol_version": PROTOCOL_VERSION,
        "rpc_addr": "127.0.0.1",
        "validators": [{"account_id": f"node{i}"} for i in range(network.config.producers)],
        "sync_info": {
            "latest_block_hash": b58(head.hash),
            "latest_block_height": head.height,
            "latest_state_root": b58(head.prev_hash),
            "latest_block_time": _time(head),
            "syncing": False,
            "earliest_block_hash": b58(oldest.hash),
            "earliest_block_height": oldest.height,
            "earliest_block_time": _time(oldest),
            "epoch_id": genesis,
            "epoch_start_height": network.chain.genesis.height,
        },
        "validator_account_id": validator,
        "validator_public_key": _key_of(network, validator),
        "node_public_key": _key_of(network, f"rpc{view.node}"),
        "node_key": _key_of(network, validator),
        "uptime_sec": int((network.now - oldest.timestamp_ms) / 1000),
    }


@cache
def _protocol_config() -> JSON:
    """What a real node of this protocol version says: fees, limits and costs."""
    config: JSON = orjson.loads(resources.files(__package__).joinpath("protocol_87.json").read_bytes())
    return config


def protocol_config_view(network: Network) -> JSON:
    config, chain = network.config, network.chain
    return {
        **_protocol_config(),
        "protocol_version": PROTOCOL_VERSION,
        "chain_id": config.chain_id,
        "genesis_height": chain.genesis.height,
        "genesis_time": _time(chain.blocks[0]),
        "epoch_length": config.keep_blocks // 5,
        "transaction_validity_period": config.validity,
        "gas_limit": config.receipt_gas_limit,
        "min_gas_price": str(config.gas_price),
        "protocol_treasury_account": "treasury",
    }
