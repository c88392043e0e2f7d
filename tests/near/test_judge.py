"""The judge on receipts written by hand: every bound, every odd shape, and what each failure is called."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from txmanager.chains.near.judge import judge
from txmanager.core.models import Outcome
from txmanager.core.states import Status
from txmanager.rpc import BadAnswer

VALUE_BYTES, LOG_CHARS, LOGS, ERRORS = 65_536, 16_384, 100, 20


def value(text: bytes = b"") -> dict[str, Any]:
    return {"SuccessValue": base64.b64encode(text).decode()}


def following(name: str) -> dict[str, Any]:
    return {"SuccessReceiptId": name}


def failed(kind: Any = "AccountDoesNotExist") -> dict[str, Any]:
    return {"Failure": {"ActionError": {"index": 0, "kind": kind}}}


def step(name: str, status: Any, *receipts: str, **more: Any) -> dict[str, Any]:
    outcome = {"executor_id": "a.near", "receipt_ids": list(receipts), "logs": [], "gas_burnt": 0, "tokens_burnt": "0"}
    return {"id": name, "block_hash": "B", "outcome": {**outcome, "status": status, **more}}


def told(first: Any, *rest: Any, refunds: tuple[str, ...] = ()) -> dict[str, Any]:
    receipts = [{"receipt_id": name, "predecessor_id": "system"} for name in refunds]
    return {"transaction_outcome": first, "receipts_outcome": list(rest), "receipts": receipts}


def lone(status: Any, **more: Any) -> dict[str, Any]:
    return told(step("tx", following("r1"), "r1"), step("r1", status, **more))


def ask(status: Any, kind: str = "near.function_call", deposit: int | None = None, **payload: Any) -> Outcome:
    return judge(kind, payload, status, "h", 1, deposit)


def result(status: Any, **more: Any) -> dict[str, Any]:
    found = ask(status, **more).result
    assert found is not None
    return dict(found)


def error(status: Any, **more: Any) -> dict[str, Any]:
    outcome = ask(status, **more)
    assert outcome.status is Status.FAILED
    assert outcome.error is not None
    return dict(outcome.error)


def test_gas_tokens_and_logs_are_those_of_every_step_but_the_refunds():
    status = told(
        step("tx", following("r1"), "r1", gas_burnt=1, tokens_burnt="10", logs=["a"]),
        step("back", value(), gas_burnt=100, tokens_burnt="1000", logs=["not this"]),
        step("r1", value(b"7"), gas_burnt=2, tokens_burnt=20, logs=["b", 5]),
        refunds=("back",),
    )
    assert result(status) == {
        "block_hash": "B",
        "value": 7,
        "value_base64": "Nw==",
        "logs": ["a", "b"],
        "gas_burnt": "3",
        "tokens_burnt": "30",
        "receipt_errors": [],
    }


def paid(name: str, by: str, to: str, *deposits: int) -> dict[str, Any]:
    """A receipt as a node lists it."""
    actions = ["CreateAccount", *({"Transfer": {"deposit": str(amount)}} for amount in deposits)]
    body = {"Action": {"actions": actions}}
    return {"receipt_id": name, "predecessor_id": by, "receiver_id": to, "receipt": body}


def spent(*rest: Any, receipts: Any = (), first: Any = None) -> int | None:
    """What a transaction of a.near with a deposit of 700 to b.near cost."""
    start = first or step("tx", following("r1"), "r1", tokens_burnt="5")
    return ask({**told(start, *rest), "receipts": receipts}, deposit=700).cost


def ran(name: str, status: Any, *receipts: str, at: str = "b.near") -> dict[str, Any]:
    return step(name, status, *receipts, executor_id=at)


def test_cost_is_what_was_burnt_and_attached():
    assert spent(ran("r1", value())) == 705
    assert ask(lone(value())).cost is None, "nobody said what was attached"


def test_deposit_comes_back_when_its_first_receipt_fails_or_never_was():
    assert spent(ran("r1", failed())) == 5
    assert spent(ran("r1", following("r2"), "r2"), ran("r2", failed(), at="c.near")) == 705, "a contract gets it back"
    never = step("tx", {"Failure": {"InvalidTxError": "InvalidChain"}}, tokens_burnt="0")
    assert spent(first=never) == 0


def test_deposit_to_oneself_stays():
    assert spent(ran("r1", value(), at="a.near")) == 5


def test_what_receipts_pay_back_is_not_spent():
    steps = ran("r1", value(), "r2"), ran("r2", value(), at="a.near")
    first, back = paid("r1", "a.near", "b.near", 700), paid("r2", "b.near", "a.near", 100, 20)
    assert spent(*steps, receipts=[first, back]) == 705 - 120
    assert spent(*steps, receipts=[first, {**back, "receiver_id": "c.near"}]) == 705
    assert spent(*steps, receipts=[first, {**back, "receipt_id": "r9"}]) == 705, "it has not run"
    assert spent(ran("r1", value(), "r2"), ran("r2", failed(), at="a.near"), receipts=[first, back]) == 705
    assert spent(*steps, receipts=[first, {**back, "predecessor_id": "system"}]) == 705, "a refund of gas"
    more = ran("r1", value(), "r2", "r3"), ran("r2", value(), at="a.near"), ran("r3", value(), at="a.near")
    refund = paid("r3", "system", "a.near", 50)
    assert spent(*more, receipts=[first, back, refund]) == 705 - 120, "a refund beside it"
    two = [*more, ran("r4", value(), at="a.near")]
    assert spent(*two, receipts=[first, back, refund, paid("r4", "system", "a.near", 60)]) == 705 - 120


def test_what_a_contract_on_the_own_account_pays_is_spent():
    steps = ran("r1", value(), "r2", at="a.near"), ran("r2", value(), at="c.near")
    assert spent(*steps, receipts=[paid("r2", "a.near", "c.near", 30)]) == 5 + 30
    back = ran("r1", value(), "r2", at="a.near"), ran("r2", value(), at="a.near")
    assert spent(*back, receipts=[paid("r2", "a.near", "a.near", 30)]) == 5, "from the account to itself"


def test_receipts_of_an_odd_shape_pay_nothing():
    steps = ran("r1", value(), "r2"), ran("r2", value(), at="a.near")
    back = paid("r2", "b.near", "a.near", 100)
    odd: list[Any] = [
        None,
        "r2",
        {**back, "receipt": None},
        {**back, "receipt": {"Data": {}}},
        {**back, "receipt": {"Action": {"actions": None}}},
        {**back, "receipt": {"Action": {"actions": [5, {"Transfer": None}, {"Stake": {"stake": "9"}}]}}},
    ]
    for receipt in odd:
        assert spent(*steps, receipts=[receipt]) == 705
    with pytest.raises(BadAnswer):
        spent(*steps, receipts=[{**back, "receipt": {"Action": {"actions": [{"Transfer": {"deposit": "x"}}]}}}])
    assert spent(*steps, receipts=None) == 705


# -- what is too long


def test_a_value_is_kept_up_to_its_bound():
    whole = result(lone(value(b"1" * VALUE_BYTES)))
    assert "value_truncated" not in whole
    assert len(base64.b64decode(whole["value_base64"])) == VALUE_BYTES
    cut = result(lone(value(b"1" * (VALUE_BYTES + 1))))
    assert (cut["value"], cut["value_truncated"], cut["value_base64_truncated"]) == (None, True, True)
    assert len(base64.b64decode(cut["value_base64"])) == VALUE_BYTES


def test_a_value_that_is_too_deep_is_kept_as_bytes_alone():
    deep = result(lone(value(b"[" * 500 + b"]" * 500)))
    assert (deep["value"], deep["value_truncated"], deep["value_base64_truncated"]) == (None, True, False)


def test_no_value_and_an_empty_one_are_whole():
    assert result(lone(value()))["value_base64"] == ""
    assert "value_truncated" not in result(lone(value()))
    assert ask(lone(failed())).result is not None
    assert result(lone(failed()))["value_base64"] is None


@pytest.mark.parametrize(
    ("logs", "kept"),
    [
        (["x"] * LOGS, ["x"] * LOGS),
        (["x" * LOG_CHARS], ["x" * LOG_CHARS]),
        ([], []),
        ("no list", []),
    ],
    ids=["count", "characters", "none", "no list"],
)
def test_logs_are_whole_up_to_their_bounds(logs: Any, kept: list[str]):
    found = result(lone(value(), logs=logs))
    assert found["logs"] == kept
    assert "logs_truncated" not in found


@pytest.mark.parametrize(
    ("logs", "kept"),
    [
        (["x"] * (LOGS + 1), ["x"] * LOGS),
        (["x" * LOG_CHARS, "y"], ["x" * LOG_CHARS]),
        (["x" * (LOG_CHARS + 1)], ["x" * LOG_CHARS]),
        (["x" * (LOG_CHARS - 1), "yz"], ["x" * (LOG_CHARS - 1), "y"]),
    ],
    ids=["count", "no room", "one too long", "half a log"],
)
def test_logs_beyond_their_bounds_are_cut_and_called_so(logs: list[str], kept: list[str]):
    found = result(lone(value(), logs=logs))
    assert found["logs"] == kept
    assert found["logs_truncated"] is True


@pytest.mark.parametrize("more", [0, 1])
def test_errors_of_receipts_are_kept_up_to_their_bound(more: int):
    others = [step(f"e{n}", failed()) for n in range(ERRORS + more)]
    found = result(told(step("tx", following("r1"), "r1"), step("r1", value()), *others))
    assert [one["receipt_id"] for one in found["receipt_errors"]] == [f"e{n}" for n in range(ERRORS)]
    assert found.get("receipt_errors_truncated", False) is bool(more)


# -- which step is the intent's own


def test_the_value_is_that_of_the_receipt_that_stands_for_the_others():
    status = told(step("tx", following("r1"), "r1"), step("r1", following("r2"), "r2"), step("r2", value(b"2")))
    assert result(status)["value"] == 2


@pytest.mark.parametrize(
    "status",
    [
        told(step("tx", following("other")), step("r1", value())),
        told(step("tx", following("r1")), step("r1", following("gone"))),
        told(step("tx", following("r1")), step("r1", following("r2")), step("r2", following("r1"))),
        told(step("tx", following("tx")), step("r1", value())),
        told(step("tx", {"SuccessReceiptId": 5}), step("r1", value())),
    ],
    ids=["not the one there", "missing", "in a circle", "itself", "no name"],
)
def test_a_result_that_no_receipt_holds_is_a_bad_answer(status: Any):
    with pytest.raises(BadAnswer, match="misses the receipt"):
        ask(status)


def test_a_transaction_that_answers_itself_needs_no_receipt():
    name = base64.b64encode(b"1").decode()
    assert result(told(step("tx", value(b"1")), step(name, value(b"2"))))["value"] == 1


def delegate(outer: Any, *rest: Any, refunds: tuple[str, ...] = ()) -> Status:
    return ask(told(step("tx", following("r1"), "r1"), outer, *rest, refunds=refunds), "near.delegate").status


def test_a_delegate_is_judged_by_what_its_outer_receipt_sends_in_the_users_name():
    assert delegate(step("r1", value(), "r2"), step("r2", failed())) is Status.FAILED
    assert delegate(step("r1", value(), "r2"), step("r2", value())) is Status.DONE
    assert delegate(step("r1", failed(), "r2"), step("r2", value())) is Status.FAILED
    assert delegate(step("r1", value(), "gone", "r2"), step("r2", failed())) is Status.FAILED
    back = step("back", value())
    assert delegate(step("r1", value(), "back", "r2"), back, step("r2", failed()), refunds=("back",)) is Status.FAILED
    assert delegate(step("r1", value())) is Status.DONE


# -- what a failure is called


def test_false_is_a_failure_of_a_root_contract_alone():
    status = lone(value(b"false"))
    assert ask(status, "near.function_call", root_contract="near").status is Status.DONE
    assert ask(status, "near.create_account").status is Status.DONE
    told = error(status, kind="near.create_account", root_contract="near")
    assert (told["code"], told["new_key_helps"]) == ("account_not_created", True)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"ActionError": {"kind": "LackBalanceForState"}}, "lack_balance_for_state"),
        ({"ActionError": {"kind": {"FunctionCallError": {"ExecutionError": "panicked"}}}}, "contract_panicked"),
        ({"ActionError": {"kind": {"FunctionCallError": {"CompilationError": {}}}}}, "compilation_error"),
        ({"ActionError": {"kind": {"ExecutionError": "odd"}}}, "execution_error"),
        ({"ActionError": "odd"}, "odd"),
        ({"ActionError": {"kind": 5}}, "action_error"),
        ({"InvalidTxError": {"NotEnoughBalance": {}}}, "not_enough_balance"),
        ({"ActionError": {"kind": {"AccountAlreadyExists": {}}}}, "account_already_exists"),
        (5, "failed_on_chain"),
        ("X" + "x" * 70, "x" * 64),
    ],
)
def test_a_failure_is_named_by_the_innermost_word(words: Any, code: str):
    told = error(lone({"Failure": words}))
    assert told["code"] == code
    assert told["new_key_helps"] is (code != "account_already_exists")


# -- odd shapes


@pytest.mark.parametrize(
    "more",
    [
        {"executor_id": 5},
        {"gas_burnt": -1},
        {"gas_burnt": True},
        {"tokens_burnt": -1},
        {"tokens_burnt": "-1"},
        {"tokens_burnt": "1x"},
        {"tokens_burnt": "٣"},
        {"tokens_burnt": "9" * 40},
        {"tokens_burnt": None},
        {"status": {"SuccessValue": "!!!!"}},
        {"status": {"SuccessValue": 5}},
        {"status": {"Unknown": ""}},
        {"status": {}},
    ],
)
def test_an_odd_outcome_is_a_bad_answer(more: dict[str, Any]):
    with pytest.raises(BadAnswer):
        ask(lone(**{"status": value(), **more}))


def test_amounts_are_numbers_or_their_digits():
    assert result(lone(value(), tokens_burnt="9" * 39))["tokens_burnt"] == "9" * 39
    for zero in (0, "0"):
        assert result(lone(value(), tokens_burnt=zero))["tokens_burnt"] == "0"
    assert result(lone(value(), gas_burnt="12"))["gas_burnt"] == "12"


def test_a_bad_answer_shows_a_bounded_part_of_what_was_odd():
    with pytest.raises(BadAnswer) as caught:
        ask(told(step("n" * 65, {"Unknown": ""})))
    assert f" {'n' * 64} " in str(caught.value)
    with pytest.raises(BadAnswer) as caught:
        ask(lone(value(), tokens_burnt="z" * 41))
    assert f"'{'z' * 40}'" in str(caught.value)


def test_a_status_without_a_block_is_a_bad_answer():
    status = lone(value())
    del status["transaction_outcome"]["block_hash"]
    with pytest.raises(BadAnswer, match="block_hash"):
        ask(status)
