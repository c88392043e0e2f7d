"""What the Python stack says, for a resident lane to say the same: `python -m tests.resident.vectors` writes the file.

Each vector is a question with its arguments and the answer. Payloads are JSON texts, so that every digit arrives.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from txmanager.chains.near import actions as act
from txmanager.chains.near.compile import compile_intent
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.delegates import check_delegate, check_delegate_nonce, delegate_hash, sender_key
from txmanager.chains.near.effects import deposit_at_risk, own_effects, receivers_of
from txmanager.chains.near.intents import derived_key, parse_payload
from txmanager.chains.near.judge import judge
from txmanager.chains.near.names import LaneId, PublicKey, b58_text
from txmanager.chains.near.policy import KeyView, NearPolicy
from txmanager.chains.near.transaction import Envelope, sign_delegate
from txmanager.chains.near.verdicts import classify
from txmanager.core.chain import Proof, SendReply, Sighting, Traits, Verdict
from txmanager.core.decide import decide
from txmanager.core.errors import InvalidInput
from txmanager.core.fingerprint import fingerprint
from txmanager.core.models import Attempt, Intent, Outcome, Purpose, Record, intent_id, new_intent
from txmanager.core.router import Router
from txmanager.core.states import Status
from txmanager.core.steps import Hold, Kill, Observation, Pause, Policy, Probe, Prove, Quarantine, Resign, Settle
from txmanager.ledger.redis.codec import pack_attempt, pack_final, pack_outcome
from txmanager.rpc.errors import BadAnswer, RateLimited, RpcError, RpcFailure, TimedOut, TooLarge
from txmanager.runtime.deliver.events import lane_mark
from txmanager.runtime.lane.sealing import make_seals
from txmanager.signing import Ed25519Signer, Secret

FILE = Path(__file__).parent / "vectors.json"
RECORDED = Path(__file__).parent.parent / "devnet" / "answers.jsonl"
ACCOUNT = "relayer.near"
KEY = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"
SIGNER = Ed25519Signer(Secret(bytes(range(32))))
LANE = LaneId("testnet", ACCOUNT, PublicKey.parse(SIGNER.public_key))
SEED = "a-secret-of-the-vectors-0123456789abcdef"
USER = Ed25519Signer(Secret(bytes(range(32, 64))))
Vector = dict[str, Any]


def vector(ask: str, want: Any, *args: Any) -> Vector:
    return {"ask": ask, "args": list(args), "want": want}


def fingerprints() -> Iterator[Vector]:
    rng = random.Random(1)
    texts = [
        "{}",
        '{"b":1,"a":[1,1.0,1e0,true,null,"x"]}',
        '{"amount":9007199254740993,"low":-9223372036854775808,"high":18446744073709551615}',
        '{"f":[0.1,1e23,1.5e-7,5e-324,1.7976931348623157e308,123456789.125,-0.0,100.0]}',
        '{"\\u20ac":"\\u0001\\u001f\\u007f\\"\\\\/","\\ud83d\\ude00":1,"\\uffff":2,"z":"\\u2028"}',
        '{"__proto__":{"a":1},"constructor":"x","\\u0000#1":"\\u0000#1","n":"\\u0000$x"}',
        '{"deep":' + "[" * 60 + "]" * 60 + "}",
        ' { "a" : [ ] , "a" : { } } ',
    ]
    for _ in range(40):
        value = {f"k{n}": rng.choice([rng.randint(-(10**18), 10**18), rng.random(), "é" * n]) for n in range(5)}
        texts.append(json.dumps(value))
    for n, text in enumerate(texts):
        yield vector("fingerprint", fingerprint("near.transfer", orjson.loads(text)), "near.transfer", text)
        if n > 3:
            yield vector("plain", orjson.dumps(orjson.loads(text)).decode(), text)
            ordered = orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
            yield vector("sorted", ordered, text)


def homes() -> Iterator[Vector]:
    names = [f"near:testnet:{ACCOUNT}:ed25519:{n:044d}" for n in range(64)]
    for n in range(60):
        key = ("k" * n) + str(n)
        yield vector("home", intent_id(key, "main", "default").home, f"default/main/{key}")
        yield vector("mark", lane_mark(names[n]), names[n])
        lanes = names[: 1 + n]
        yield vector("route", Router([(lane, 1) for lane in lanes]).choose(key), [[lane, 1] for lane in lanes], key)
        weighted = [(lane, 1 + at % 3) for at, lane in enumerate(lanes)]
        yield vector("route", Router(weighted).choose(key), [list(one) for one in weighted], key)


def payloads() -> list[tuple[str, dict[str, Any]]]:
    call = {"method_name": "go", "args": {"a": 9007199254740993, "b": [1.5, "é"]}, "gas": "5000000000000"}
    actions: list[dict[str, Any]] = [
        {"type": "create_account"},
        {"type": "deploy_contract", "code_base64": "AAEC"},
        {"type": "function_call", **call, "deposit": 7},
        {"type": "function_call", "method_name": "raw", "args_base64": "/wA="},
        {"type": "transfer", "amount": str(2**128 - 1)},
        {"type": "stake", "stake": "5", "public_key": KEY},
        {"type": "add_key", "public_key": KEY},
        {
            "type": "add_key",
            "public_key": KEY,
            "permission": {"receiver_id": "app.near", "method_names": ["a", "b"], "allowance": "9"},
        },
        {"type": "add_key", "public_key": KEY, "num_nonces": 1024},
        {"type": "add_key", "public_key": "secp256k1:" + b58_text(bytes(range(64))), "permission": "full_access"},
        {"type": "delete_key", "public_key": KEY},
        {"type": "transfer_to_gas_key", "public_key": KEY, "amount": "1"},
        {"type": "withdraw_from_gas_key", "public_key": KEY, "amount": "1"},
        {"type": "delete_account", "beneficiary_id": "heir.near"},
    ]
    new = f"alice.{ACCOUNT}"
    found: list[tuple[str, dict[str, Any]]] = [
        ("near.create_account", {"new_account_id": new, "public_key": KEY}),
        ("near.create_account", {"new_account_id": new, "public_key": KEY, "initial_balance": "10"}),
        (
            "near.create_account",
            {"new_account_id": new, "public_key": KEY, "initial_balance": 5, "extra_actions": actions[1:4]},
        ),
        (
            "near.create_account",
            {
                "new_account_id": "bob.near",
                "public_key": KEY,
                "root_contract": "near",
                "gas": "1",
                "initial_balance": 1,
            },
        ),
        ("near.create_account", {"new_account_id": "a.b.near", "public_key": KEY, "root_contract": "near"}),
        ("near.create_account", {"new_account_id": "alice.other.near", "public_key": KEY}),
        ("near.create_account", {"new_account_id": new, "public_key": KEY, "extra": 1}),
        ("near.create_account", {"new_account_id": new}),
        ("near.recovery", {"account_id": "a.near", "message_id": "m1", "contract_id": "r.near", **call}),
        ("near.recovery", {"account_id": "a.near", "message_id": "a b", "contract_id": "r.near", **call}),
        ("near.function_call", {"contract_id": "c.near", **call}),
        ("near.function_call", {"contract_id": "c.near", "method_name": "x", "args": [], "args_base64": ""}),
        ("near.function_call", {"contract_id": "c.near", "method_name": ""}),
        ("near.function_call", {"contract_id": "c.near", "method_name": "x", "gas": "0"}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": "1"}),
        ("near.transfer", {"receiver_id": "Bob", "amount": "1"}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": "1.5"}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": -1}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": True}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": str(2**128)}),
        ("near.transfer", {"receiver_id": "bob.near", "amount": "1", "memo": "x"}),
        ("near.transaction", {"receiver_id": "c.near", "actions": []}),
        ("near.transaction", {"receiver_id": "c.near", "actions": [actions[13], actions[4]]}),
        ("near.transaction", {"receiver_id": "c.near", "actions": [{**actions[2], "gas": str(10**15)}] * 2}),
        ("near.transaction", {"receiver_id": "c.near", "actions": [actions[4]] * 101}),
        ("near.transaction", {"receiver_id": ACCOUNT, "actions": [actions[4], actions[0]]}),
        ("near.transaction", {"receiver_id": new, "actions": [actions[0], *actions[4:6], *actions[6:8]]}),
    ]
    found += [("near.transaction", {"receiver_id": "c.near", "actions": [action]}) for action in actions]
    found += [("near.transaction", {"receiver_id": ACCOUNT, "actions": [action]}) for action in actions]
    return found


_POLICIES: list[dict[str, Any]] = [
    {},
    {"own_account": ["add_key", "function_call", "deploy_contract"], "max_deposit": "6"},
]


def policy_of(told: dict[str, Any]) -> NearPolicy:
    made: dict[str, Any] = {}
    for name, value in told.items():
        made[name] = frozenset(value) if isinstance(value, list) else int(value)
    return NearPolicy(**made)


def refused(error: InvalidInput) -> dict[str, str]:
    return {"refused": error.field.partition(".")[0].partition("[")[0], "code": error.code}


def compiled() -> Iterator[Vector]:
    for kind, payload in payloads():
        text = json.dumps(payload)
        for told in _POLICIES:
            want: dict[str, Any]
            try:
                model = parse_payload(kind, payload)
                body = compile_intent(model, LANE, policy_of(told))
            except InvalidInput as error:
                want = refused(error)
            else:
                want = {
                    "receiver": body.receiver_id,
                    "actions": body.action_bytes.hex(),
                    "key": derived_key(kind, payload),
                    "own": sorted(own_effects(body.receiver_id, body.actions, ACCOUNT)),
                    "deposit": str(deposit_at_risk(body.actions)),
                    "receivers": sorted(receivers_of(body.receiver_id, body.actions)),
                }
            yield vector("compile", want, kind, text, ACCOUNT, told)


def signed() -> Iterator[Vector]:
    envelope = Envelope(ACCOUNT, LANE.public_key, SIGNER)
    secret = f"ed25519:{b58_text(bytes(range(32)) + LANE.public_key.data)}"
    for n, (kind, payload) in enumerate(payloads()):
        try:
            body = compile_intent(parse_payload(kind, payload), LANE, NearPolicy(own_account=frozenset({"add_key"})))
        except InvalidInput:
            continue
        block, nonce = bytes((n,)) * 32, 2**63 + n
        [made] = envelope.sign_now([(nonce, body.receiver_bytes, body.action_bytes)], block)
        want = {"raw": made.raw.hex(), "hash": b58_text(made.hash)}
        yield vector("sign", want, secret, str(LANE), kind, json.dumps(payload), str(nonce), b58_text(block))


def delegate(**changes: Any) -> act.SignedDelegate:
    told: dict[str, Any] = {
        "sender_id": "alice.near",
        "receiver_id": "app.near",
        "actions": (act.FunctionCall("go", b"{}", 10**13, 1),),
        "nonce": 51,
        "max_block_height": 2_000,
        "public_key": PublicKey.parse(USER.public_key),
    }
    return sign_delegate(act.DelegateAction(**{**told, **changes}), USER)


def delegates() -> Iterator[Vector]:
    good = delegate()
    gas = delegate(actions=(act.FunctionCall("go", b"", 301 * 10**12),))
    forms: list[tuple[act.SignedDelegate, Any]] = [
        (good, base64.b64encode(good.encode_bare()).decode()),
        (good, base64.b64encode(good.encode()).decode()),
        (good, _nearcore(good)),
    ]
    second = delegate(second=True)
    third = delegate(second=True, nonce_index=7)
    many = delegate(actions=(act.Transfer(5), act.AddKey(PublicKey.parse(KEY)), act.DeleteAccount("heir.near")))
    heirs = delegate(max_block_height=1_003)
    forged = act.SignedDelegate(delegate(nonce=99).delegate, 0, good.signature)
    own = delegate(sender_id=ACCOUNT, receiver_id=ACCOUNT, actions=(act.DeleteKey(PublicKey.parse(KEY)),))
    large = delegate(actions=(act.FunctionCall("go", b"x" * 20_000, 10**13),))
    costly = delegate(actions=(act.Transfer(10**24),))
    for one in (second, third, many, heirs, forged, own, gas, large, costly):
        forms.append((one, base64.b64encode(one.encode_bare()).decode()))
    for signed_, form in forms:
        told = {"hash": delegate_hash(signed_), "sender": sender_key(signed_), "bare": signed_.encode_bare().hex()}
        yield vector("delegate", told, json.dumps(form))
    for text in ("?", "", "AAAA", base64.b64encode(good.encode_bare()[:-1]).decode(), {"delegate_action": {}}, 7):
        try:
            read_delegate(text)
        except InvalidInput as error:
            yield vector("delegate", refused(error), json.dumps(text))
    rules: list[dict[str, Any]] = [
        {},
        {"delegate_senders": ["bob.near"]},
        {"delegate_senders": ["*.near"], "delegate_receivers": ["*.app.near"]},
        {"delegate_methods": ["stop"]},
        {"delegate_actions": ["transfer", "add_key", "delete_account"], "delegate_max_deposit": str(10**25)},
    ]
    for signed_, form in forms[3:] + forms[:1]:
        for rule in rules:
            try:
                check_delegate(signed_, policy_of(rule), 1_000)
                want: Any = "passes"
            except InvalidInput as error:
                want = {"refused": error.field, "code": error.code}
            yield vector("check_delegate", want, json.dumps(form), rule, "1000")
    keys: list[KeyView | None] = [
        None,
        KeyView(50, 10**9, "x"),
        KeyView(51, 10**9, "x"),
        KeyView(0, 0, "x"),
        KeyView(50, 10**9, "x", {"receiver_id": "app.near", "method_names": []}),
    ]
    for key in keys:
        try:
            check_delegate_nonce(good, key)
            want = "passes"
        except InvalidInput as error:
            want = {"refused": error.field, "code": error.code}
        view = None if key is None else {"nonce": key.nonce, "height": key.height, "permission": key.permission}
        yield vector("check_nonce", want, json.dumps(forms[0][1]), json.dumps(view))


def _nearcore(signed_: act.SignedDelegate) -> dict[str, Any]:
    inner = signed_.delegate
    call = {"method_name": "go", "args": base64.b64encode(b"{}").decode(), "gas": 10**13, "deposit": "1"}
    return {
        "delegate_action": {
            "sender_id": inner.sender_id,
            "receiver_id": inner.receiver_id,
            "actions": [{"FunctionCall": call}],
            "nonce": inner.nonce,
            "max_block_height": inner.max_block_height,
            "public_key": str(inner.public_key),
        },
        "signature": f"ed25519:{b58_text(signed_.signature)}",
    }


_TX_ERRORS = [
    "InvalidNonce",
    "Expired",
    "InvalidChain",
    "ShardCongested",
    "ShardStuck",
    "NotEnoughBalance",
    "LackBalanceForState",
    "NotEnoughGasKeyBalance",
    "NotEnoughBalanceForDeposit",
    "SignerDoesNotExist",
    "InvalidNonceIndex",
    "InvalidSignature",
    "InvalidSignerId",
    "InvalidReceiverId",
    "ActionsValidation",
    "TransactionSizeExceeded",
    "CostOverflow",
    "InvalidTransactionVersion",
    "BrandNew",
    "toString",
]
_KEY_ERRORS = [
    "AccessKeyNotFound",
    "NotEnoughAllowance",
    "ReceiverMismatch",
    "MethodNameMismatch",
    "RequiresFullAccess",
    "DepositWithFunctionCall",
    "BrandNew",
]


def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text().splitlines()]


def verdicts() -> Iterator[Vector]:
    bodies: list[tuple[Any, int]] = []
    for name in _TX_ERRORS:
        for inner in (name, {name: {"tx_nonce": 1, "ak_nonce": 60462377000000}}):
            bodies.append(({"data": {"TxExecutionError": {"InvalidTxError": inner}}}, 200))
        bodies.append(({"data": {"InvalidTxError": name}}, 200))
    for name in _KEY_ERRORS:
        data = {"InvalidTxError": {"InvalidAccessKeyError": {name: {}}}}
        bodies.append(({"data": {"TxExecutionError": data}}, 200))
    for cause in ("TIMEOUT_ERROR", "UNKNOWN_TRANSACTION", "NO_SYNCED_BLOCKS", "NOT_SYNCED_YET", "INTERNAL_ERROR"):
        for why in (None, "NOT_OBSERVED", "PENDING", {"name": "ERROR"}, {"PENDING": {}}, {"DOES_NOT_TRACK_SHARD": 1}):
            bodies.append(({"cause": {"name": cause, "info": {"cause": why}}, "data": "Timeout"}, 408))
    bodies.append(({"name": "REQUEST_VALIDATION_ERROR", "cause": {"name": "PARSE_ERROR"}}, 400))
    bodies += [({"code": -429}, 200), ({}, 429), ("words", 200), ({"data": 7, "cause": 8, "name": 9}, 200)]
    for one in recorded():
        answer = one.get("answer")
        if isinstance(answer, dict) and "error" in answer:
            bodies.append((answer["error"], one["http"]))
    for body, status in bodies:
        for waited in (False, True):
            error = RpcError(body, status)
            yield vector("verdict", classify(error, waited).verdict.value, json.dumps(body), status, waited)
    failures: list[tuple[str, RpcFailure]] = [
        ("rate_limited", RateLimited("x")),
        ("too_large", TooLarge("x")),
        ("bad_answer", BadAnswer("x")),
        ("unavailable", TimedOut("x")),
    ]
    for sort, failure in failures:
        yield vector("failure", classify(failure).verdict.value, sort)


def _bare(status: dict[str, Any]) -> dict[str, Any]:
    """What the judge reads of it."""
    outcomes = [status["transaction_outcome"], *status["receipts_outcome"]]
    for one in outcomes:
        one.pop("proof", None)
        one["outcome"].pop("metadata", None)
    receipts = [{k: r[k] for k in ("predecessor_id", "receipt_id")} for r in status.get("receipts", ())]
    told = {"transaction_outcome": outcomes[0], "receipts_outcome": outcomes[1:]}
    return told | ({"receipts": receipts} if receipts else {})


def judged() -> Iterator[Vector]:
    finals = []
    for one in recorded():
        answer = one.get("answer")
        result = answer.get("result") if isinstance(answer, dict) else None
        if isinstance(result, dict) and result.get("final_execution_status") == "FINAL":
            finals.append(_bare(result))
    finals = sorted(finals, key=lambda found: len(json.dumps(found)))[:9]
    cases: list[tuple[str, dict[str, Any], Any]] = []
    kinds = ("near.transfer", "near.delegate", "near.create_account", "near.recovery")
    for status in finals:
        cases += [(kind, {}, status) for kind in kinds]
        cases.append(("near.create_account", {"root_contract": "near"}, status))
    rng = random.Random(7)
    values = [b"false", b"true", b"", b'{"a": 9007199254740993, "b": [1.5, null]}', b"\xff", b"[" * 40 + b"]" * 40]
    for n in range(42):
        status = copy.deepcopy(finals[n % len(finals)])
        outcomes = status["receipts_outcome"]
        if outcomes:
            one = rng.choice(outcomes)["outcome"]
            one["status"] = rng.choice(
                [
                    {"SuccessValue": base64.b64encode(rng.choice(values)).decode()},
                    {"Failure": {"ActionError": {"index": 0, "kind": {"AccountAlreadyExists": {"account_id": "x"}}}}},
                    {"Failure": {"ActionError": {"kind": {"FunctionCallError": {"ExecutionError": "panic"}}}}},
                    {"SuccessReceiptId": "nowhere"},
                    "Unknown",
                ]
            )
            one["logs"] = ["é" * (9_000 if n in (5, 6) else 9) for _ in range(rng.randint(0, 3))]
        if n % 7 == 0:
            status.pop("receipts", None)
        if n % 11 == 0:
            status["transaction_outcome"] = {}
        cases.append((kinds[n % 4], {"root_contract": "near"} if n % 3 else {}, status))
        cases.append((kinds[1], {}, status))
    for kind, payload, status in cases:
        try:
            told = judge(kind, payload, status, "the-hash", 2**60 + 1)
            want: Any = json.loads(pack_outcome(told))
        except BadAnswer:
            want = "bad answer"
        yield vector("judge", want, kind, json.dumps(payload), json.dumps(status))


def sealed() -> Iterator[Vector]:
    seals = make_seals([SEED])
    for n, (kind, payload) in enumerate(payloads()[:12]):
        intent = new_intent(key=f"k{n}", pool="main", kind=kind, payload=payload, max_age_s=n or None)
        seal = seals.seal(intent, f"life{n}", str(LANE))
        told = {
            "id": intent.id.text,
            "kind": kind,
            "fingerprint": intent.fingerprint,
            "life": f"life{n}",
            "lane": str(LANE),
            "max_age_s": n or None,
            "payload": orjson.dumps(payload).decode(),
        }
        yield vector("seal", seal, SEED, told)


def kept() -> Iterator[Vector]:
    """An attempt and a final record as the store keeps them."""
    attempt = Attempt(7, "hash", b"raw\0bytes", Purpose.FIRST, 123, 1_000, 87_400, {"receiver_id": "bob.near"})
    told = {"nonce": "7", "hash": "hash", "signed_at": 123, "base_height": "1000", "valid_until": "87400"}
    yield vector("pack_attempt", pack_attempt(attempt).hex(), told, attempt.raw.hex(), "bob.near")
    for status, error in ((Status.DONE, None), (Status.FAILED, {"code": "x", "message": "é", "n": 2**60})):
        intent = new_intent(
            key="k", pool="main", kind="near.transfer", payload={}, metadata={"a": 1.5}, token="t", max_age_s=9
        )
        outcome = Outcome(status, "hash", 7, {"value": None}, error)
        dead = attempt.with_proof({"cause": "expired"}) if error else attempt
        record = Record(intent, str(LANE), "life", status, "5-1", 5, 6, (dead,), outcome, {"reason": "r"}, bool(error))
        row = {
            "id": intent.id.text,
            "life": "life",
            "status": status.value,
            "position": "5-1",
            "created": 5,
            "updated": 6,
            "kind": "near.transfer",
            "fingerprint": intent.fingerprint,
            "more": orjson.dumps({"metadata": {"a": 1.5}, "max_age_s": 9, "token": "t", "seal": "s"}).decode(),
            "payload": None,
            "outcome": pack_outcome(outcome).decode(),
            "hold": '{"reason":"r"}',
            "cancel_requested": int(bool(error)),
            "directive": None,
            "resigns": 0,
            "attempts": [
                {
                    "nonce": "7",
                    "hash": "hash",
                    "purpose": "first",
                    "blob": base64.b64encode(pack_attempt(dead)).decode(),
                    "proof": '{"cause":"expired"}' if error else None,
                }
            ],
        }
        want = {"slot": intent.id.home, "record": pack_final(record).decode()}
        yield vector("pack_final", want, row, str(LANE))


_WORDS: dict[type, str] = {Probe: "send", Prove: "prove", Hold: "hold", Pause: "pause", Quarantine: "quarantine"}
_PATIENCE = Policy(window=1, include_within_ms=5_000, hold_after_ms=100_000)
_NOW = 1_000_000_000


def decisions() -> Iterator[Vector]:
    """Every case that both can meet. Where Python would sign again or kill by a no-op, a resident holds."""
    intent = new_intent(key="k", pool="main", kind="near.transfer", payload={})
    wheres = ("final", "included", "unknown")
    verdicts_ = (None, *(v for v in Verdict if v.value in _RESIDENT_VERDICTS))
    for held in (False, True):
        for where in wheres:
            for verdict in verdicts_:
                for proof in (None, "overtaken", "expired"):
                    for age_ms in (1_000, 40_000, 200_000):
                        for sent_ms in (1_000, 6_000):
                            for unproven in (False, True):
                                yield from _case(intent, held, where, verdict, proof, age_ms, sent_ms, unproven)


_SAID = {
    "accepted",
    "nonce_too_low",
    "expired",
    "key_missing",
    "permanent",
    "busy",
    "rate_limited",
    "unavailable",
    "unknown",
}
_RESIDENT_VERDICTS = [v.value for v in Verdict if v.value in _SAID]
"""What a lane is poor by is decided from its balance, which the two read differently."""


def _case(
    intent: Intent,
    held: bool,
    where: Any,
    verdict: Verdict | None,
    proof: Any,
    age_ms: int,
    sent_ms: int,
    unproven: bool,
) -> Iterator[Vector]:
    attempt = Attempt(7, "hash", b"", Purpose.FIRST, _NOW - age_ms)
    status = Status.HELD if held else Status.INFLIGHT
    record = Record(intent, str(LANE), "life", status, "1-0", 0, 0, (attempt,))
    outcome = Outcome(Status.DONE, "hash", 7) if where == "final" else None
    seen = Observation(
        sightings={attempt.name: Sighting(where, outcome)},
        proofs={attempt.name: Proof(proof, {})} if proof else {},
        reply=None if verdict is None else SendReply(verdict),
        sent_at=_NOW - sent_ms,
        clear=True,
        idle=True,
        lowest=True,
        unproven=unproven,
        killable=False,
    )
    step = decide(record, seen, _PATIENCE, Traits(gaps_block=False, overtaking_kills=True, replaces=False), _NOW)
    word = _WORDS.get(type(step), "wait")
    if isinstance(step, Settle):
        word = "settle" if step.outcome.tx_hash else "hold"
    if isinstance(step, Resign | Kill):
        word = "hold"
    if held and word == "send":
        word = "wait"  # a held intent is looked up; its bytes go out again when an operator says `track`
    if verdict is Verdict.PERMANENT and not held and word in ("prove", "send", "wait") and where == "unknown":
        word = "hold"  # no no-op ends it
        if age_ms >= _PATIENCE.hold_after_ms and not unproven and not proof:
            word = "prove"
    if verdict in (Verdict.NONCE_TOO_LOW, Verdict.EXPIRED) and word == "prove" and unproven:
        word = "hold" if age_ms >= 20_000 and not held else "wait"  # no proof to be had: a person decides
    told = {
        "held": held,
        "where": where,
        "verdict": None if verdict is None else verdict.value,
        "proof": proof,
        "ageMs": age_ms,
        "sentAgoMs": sent_ms,
        "unproven": unproven,
    }
    yield vector("decide", word, told)


def generate() -> list[Vector]:
    parts = (fingerprints, homes, compiled, signed, delegates, verdicts, judged, sealed, kept, decisions)
    return [one for part in parts for one in part()]


def text() -> str:
    return "[\n" + ",\n".join(orjson.dumps(one).decode() for one in generate()) + "\n]\n"


if __name__ == "__main__":
    FILE.write_text(text())
