"""State on disk: a restart continues the chain, whatever ended the process and wherever it was."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.devnet.process import Devnet, function_call, transfer
from tests.devnet.world import ALICE, BOB, GENESIS, World, call
from tests.waiting import until_sync
from txmanager.devnet import Config, Network
from txmanager.devnet import journal as journal_module
from txmanager.devnet.journal import Journal, JournalError
from txmanager.devnet.model import Transfer


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_restarted_devnet_knows_every_transaction_it_answered_for(tmp_path, end):
    with Devnet(data_dir=tmp_path, seed=5) as devnet:
        alice, bob = devnet.account(0), devnet.account(1)
        done_hash, raw = devnet.sign(alice, "counter.near", function_call("increment"))
        devnet.rpc("send_tx", {"signed_tx_base64": raw, "wait_until": "FINAL"})
        nonce = devnet.nonce(alice)
        devnet.fault("stall")
        accepted = [devnet.sign(bob, "dev0.near", transfer(), nonce=devnet.nonce(bob) + n) for n in (1, 2, 3)]
        for _, encoded in accepted:
            devnet.rpc("broadcast_tx_async", [encoded])  # acknowledged, and in no block yet
        height = devnet.head()["height"]
        getattr(devnet, end)()

        devnet.start()
        assert devnet.nonce(alice) == nonce
        until_sync(lambda: devnet.head()["height"] > height, what="new blocks")
        assert devnet.landed(done_hash, alice["account_id"])
        for tx_hash, _ in accepted:
            devnet.until_landed(tx_hash, bob["account_id"])


def test_another_network_does_not_open_the_folder_and_says_why(tmp_path):
    with Devnet(data_dir=tmp_path, seed=1):
        pass
    command = [sys.executable, "-m", "txmanager.devnet", "--port", "0", "--seed", "2", "--data-dir", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 1
    assert "another network" in refused.stderr


def open_world(folder, **config):
    world = World(**config)
    journal = Journal(folder, GENESIS)
    journal.open(world.network)
    return world, journal


def busy(world, blocks=30):
    for step in range(blocks):
        world.network.submit(world.tx(ALICE, "counter.near", call("increment")))
        world.network.submit(world.tx(BOB, ALICE, Transfer(step)))
        world.network.tick(world.network.now + 600.0)
        if step % 7 == 3:
            world.network.reorg(step % 2 + 1)
        if step % 11 == 5:
            world.network.foreign_use(BOB, world.key(BOB, 1))


def fingerprint(network):
    chain = network.chain
    blocks = [(block.hash, [tx.hash for tx in block.txs]) for block in chain.blocks]
    return blocks, chain.state.head, chain.burnt, [len(pool) for pool in network.pools], len(network.in_transit)


def test_replaying_gives_the_very_same_chain(tmp_path):
    world, journal = open_world(tmp_path, delay_ms=(0.0, 900.0), loss=0.2)
    busy(world)
    journal.close()
    again, journal = open_world(tmp_path, delay_ms=(0.0, 900.0), loss=0.2)
    assert fingerprint(again.network) == fingerprint(world.network)
    assert again.conserved()
    busy(again, 5)
    journal.close()


def test_a_torn_last_frame_is_cut_off_and_the_rest_survives(tmp_path):
    world, journal = open_world(tmp_path)
    busy(world, 10)
    height = world.network.head().height
    journal.close()
    [path] = tmp_path.glob("journal.*")
    whole = path.read_bytes()
    for cut in (1, 3, 9):
        path.write_bytes(whole[:-cut])
        again, journal = open_world(tmp_path)
        assert again.network.head().height in (height, height - 1)
        busy(again, 3)  # what is written after the cut must be found again
        journal.close()
        last, journal = open_world(tmp_path)
        assert fingerprint(last.network) == fingerprint(again.network)
        journal.close()
    path.write_bytes(whole + b"\0\0\0\0garbage")
    again, journal = open_world(tmp_path)
    assert fingerprint(again.network) == fingerprint(world.network)
    journal.close()


def test_a_long_journal_becomes_a_snapshot_without_losing_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "SNAPSHOT_AFTER", 20_000)
    world, journal = open_world(tmp_path)
    for _ in range(5):
        busy(world, 10)
        journal.compact(world.network)
    journal.close()
    assert len(list(tmp_path.glob("snapshot.*"))) == 1
    assert len(list(tmp_path.glob("journal.*"))) == 1
    assert not (tmp_path / "snapshot.1").exists()
    again, journal = open_world(tmp_path)
    assert fingerprint(again.network) == fingerprint(world.network)
    journal.close()


def test_other_settings_take_hold_after_the_past_was_replayed_under_the_old_ones(tmp_path):
    world, journal = open_world(tmp_path, producers=3)
    busy(world, 12)
    head = world.network.head().hash
    journal.close()
    again, journal = open_world(tmp_path, producers=5, validity=50)
    assert again.network.head().hash == head
    assert len(again.network.pools) == 5
    busy(again, 12)
    journal.close()
    last, journal = open_world(tmp_path, producers=5, validity=50)
    assert fingerprint(last.network) == fingerprint(again.network)
    journal.close()


def test_two_networks_cannot_share_a_folder(tmp_path):
    _, journal = open_world(tmp_path)
    with pytest.raises(JournalError, match="in use"):
        Journal(tmp_path, GENESIS)
    journal.close()


def test_a_damaged_snapshot_is_refused_in_words(tmp_path):
    _, journal = open_world(tmp_path)
    journal.close()
    [path] = tmp_path.glob("snapshot.*")
    path.write_bytes(path.read_bytes()[:50])
    journal = Journal(tmp_path, GENESIS)
    with pytest.raises(JournalError, match="cannot be read"):
        journal.open(Network(GENESIS, Config()))


def test_a_full_disk_ends_in_words_and_leaves_a_journal_that_opens(tmp_path, monkeypatch):
    world, journal = open_world(tmp_path)
    busy(world, 5)
    height = world.network.head().height
    real = os.write
    monkeypatch.setattr(journal_module.os, "write", lambda file, raw: real(file, raw[: len(raw) // 2]))
    with pytest.raises(JournalError, match="disk full"):
        world.network.tick(world.network.now + 600.0)
    monkeypatch.undo()
    journal.close()
    again, journal = open_world(tmp_path)
    assert again.network.head().height == height
    journal.close()
