"""The fixture that others use in the tests of their relays: real parts, one process, ready at once."""

from __future__ import annotations

import time

import pytest

from txmanager.client import IntentFailed, InvalidRequest, KeyReused, NotFound
from txmanager.testing.relay import Relay

pytest_plugins = ["txmanager.testing.relay"]


def test_an_account_is_created_and_a_retry_gets_the_same_answer(txmanager):
    name, key = txmanager.new_account_id(), txmanager.new_public_key()
    with txmanager.client() as client:
        first = client.create_account(name, key, wait_s=30)
        again = client.create_account(name, key, wait_s=30)
    assert (first.status, first.tx_hash) == ("done", again.tx_hash)
    assert again.replayed


def test_what_a_relay_must_handle_is_really_refused(txmanager):
    with txmanager.client() as client:
        paid = {"receiver_id": txmanager.account, "amount": "1"}
        client.submit("near.transfer", paid, key="pay-1", pool="default")
        with pytest.raises(KeyReused):
            client.submit("near.transfer", {**paid, "amount": "2"}, key="pay-1", pool="default")
        with pytest.raises(InvalidRequest, match="new_account_id"):
            client.create_account("NOT A NAME", txmanager.new_public_key())


def test_a_failed_intent_is_told_as_one(txmanager):
    name = txmanager.new_account_id()
    with txmanager.client() as client:
        client.create_account(name, txmanager.new_public_key(), wait_s=30)
        with pytest.raises(IntentFailed):
            client.execute(
                "near.create_account",
                {"new_account_id": name, "public_key": txmanager.new_public_key()},
                key=f"twice-{name}",
                pool="default",
            )


def test_two_relays_know_nothing_of_each_other_and_stop_for_good():
    with Relay(keys=1) as one, Relay(keys=1) as two:
        assert one.url != two.url
        with one.client() as client:
            key = f"create:{(name := one.new_account_id())}:{(public := one.new_public_key())}"
            client.create_account(name, public, wait_s=30)
        with two.client() as client, pytest.raises(NotFound):
            client.get(key, pool="default")
    assert not one._thread.is_alive()
    assert not two._thread.is_alive()


def test_it_starts_fast_enough_for_a_unit_test():
    """Promised is a second; a busy machine may take more, which is no reason to fail."""
    began = time.monotonic()
    with Relay(keys=1):
        assert time.monotonic() - began < 10.0


def test_a_relay_that_cannot_start_says_why():
    with pytest.raises(Exception, match="no_such_limit"), Relay(limits={"no_such_limit": 1}):
        pass
