"""Fifty signers as processes, three addresses, two API processes, kill -9 before and after sends: nobody is stuck."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.evm.nonce_stage import Wallet
from tests.waiting import until_sync
from txmanager.client import Client

SIGNERS, PAYMENTS, TTL_S = 50, 2, 3
BEFORE, AFTER = range(0, 5), range(5, 10)
"""Who is killed before its send, and who after it."""


def signer(n: int, url: str, wallet: Wallet, receiver: str, journal: Path) -> None:
    """One external process: what it was told is accepted, it writes down; then it may die."""
    rng = random.Random(n)
    with Client(url, retry_for_s=120.0) as client:
        for payment in range(PAYMENTS):

            def sign(nonce: int, value: int = 1000 + n * PAYMENTS + payment) -> str:
                if n in BEFORE:
                    os.kill(os.getpid(), signal.SIGKILL)
                return wallet.sign(nonce, receiver, value, gwei=100 + rng.randrange(50))

            sent = client.send_signed(wallet.address, "local", sign, ttl_s=TTL_S, tries=20)
            with journal.open("a") as told:
                told.write(f"{1000 + n * PAYMENTS + payment} {sent.tx_hash}\n")
            if n in AFTER:
                os.kill(os.getpid(), signal.SIGKILL)


def start(n: int, *told: object) -> BaseProcess:
    # forked: fifty interpreters would take a minute to start, and a crash is a crash
    process = multiprocessing.get_context("fork").Process(target=signer, args=(n, *told))
    process.start()
    return process


def test_fifty_signers_over_three_addresses_through_two_processes_with_crashes(service, tmp_path):
    wallets, receiver, journal = [service.wallet() for _ in range(3)], service.receiver, tmp_path / "journal"
    journal.touch()
    since = service.machine.number("eth_blockNumber")
    crowd = [start(n, service.urls[n % 2], wallets[n % 3], receiver, journal) for n in range(SIGNERS)]
    try:
        for process in crowd:
            process.join(240)
            assert process.exitcode is not None, "a signer hangs"
    finally:
        for process in crowd:
            process.kill()
    killed = {n for n, process in enumerate(crowd) if process.exitcode == -signal.SIGKILL}
    assert killed == {*BEFORE, *AFTER}
    assert all(process.exitcode == 0 for n, process in enumerate(crowd) if n not in killed)
    accepted = dict(line.split() for line in journal.read_text().splitlines())
    assert len(accepted) == (SIGNERS - len(BEFORE) - len(AFTER)) * PAYMENTS + len(AFTER)

    def fill(wallet: Wallet) -> bool:
        """Whoever comes next uses the numbers of the dead first; True when nothing waits any more."""
        told = service.health(wallet)
        if told["gapCount"] or (told["pendingCount"] and told["reservedCount"]):
            with service.client() as client:
                client.send_signed(wallet.address, "local", lambda n: wallet.sign(n, wallet.address, 0), ttl_s=TTL_S)
        return told["pendingCount"] == 0

    for wallet in wallets:
        until_sync(lambda w=wallet: fill(w), 120.0, every=0.3, what="the address is free again")

    paid: Counter[int] = Counter()
    for wallet in wallets:
        transactions = service.machine.transactions(wallet.address, since)
        nonces = [int(tx["nonce"], 16) for tx in transactions]
        assert nonces == list(range(len(nonces))), "a number was used twice or left out"
        paid.update(int(tx["value"], 16) for tx in transactions if tx["to"] == receiver)
        told = service.health(wallet)
        assert (told["pendingCount"], told["gapCount"], told["chainNonce"]) == (0, 0, len(nonces))
        assert told["state"] == "active"
    assert paid == Counter({int(value): 1 for value in accepted}), "a payment was lost or made twice"
    for hash in accepted.values():
        assert service.record(hash)["status"] == "done"
