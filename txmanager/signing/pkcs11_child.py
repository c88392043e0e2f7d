"""The process that holds a PKCS#11 module: one session, one thread, one line of JSON per question and answer.

Modules crash and hang, and two threads of one module do both. So the worker talks to this child and kills it when it
does not answer. The first line in has the module, the token and its PIN; nothing of them is ever written out.
"""

from __future__ import annotations

import json
import sys
from typing import Any

SECP256K1 = bytes.fromhex("06052b8104000a")
ED25519 = (bytes.fromhex("06032b6570"), b"\x13\x0cedwards25519")
"""The curve's number, or its name as PKCS#11 3.0 writes it."""


class _Refusal(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Token:
    def __init__(self, login: dict[str, str]) -> None:
        import pkcs11

        self._pkcs11 = pkcs11
        self._keys: dict[str, Any] = {}
        try:
            module = pkcs11.lib(login["module"])
        except pkcs11.exceptions.PKCS11Error:
            raise _Refusal("settings", f"the module {login['module']} cannot be loaded") from None
        try:
            token = module.get_token(token_label=login["token"])
        except pkcs11.exceptions.NoSuchToken:
            raise _Refusal("settings", f"the module has no token {login['token']!r}") from None
        except pkcs11.exceptions.MultipleTokensReturned:
            raise _Refusal("settings", f"the module has several tokens {login['token']!r}") from None
        try:
            self._session = token.open(user_pin=login["pin"])
        except (pkcs11.exceptions.PinIncorrect, pkcs11.exceptions.PinLenRange):
            raise _Refusal("pin", f"the PIN of token {login['token']!r} is wrong") from None
        except pkcs11.exceptions.PinLocked:
            raise _Refusal("pin", f"the PIN of token {login['token']!r} is locked") from None

    def describe(self, label: str) -> dict[str, str]:
        from pkcs11 import Attribute, ObjectClass

        self._private(label)
        public = self._one(label, ObjectClass.PUBLIC_KEY, "public")
        params, point = bytes(public[Attribute.EC_PARAMS]), bytes(public[Attribute.EC_POINT])
        point = point[2:] if point[:1] == b"\x04" and len(point) == point[1] + 2 else point  # a DER octet string
        if params == SECP256K1 and len(point) == 65:
            return {"curve": "secp256k1", "data": point.hex()}
        if params in ED25519 and len(point) == 32:
            return {"curve": "ed25519", "data": point.hex()}
        raise _Refusal("settings", f"key {label!r} is of another curve than secp256k1 and ed25519")

    def sign(self, label: str, curve: str, digests: list[str]) -> list[str]:
        from pkcs11 import Mechanism

        mechanism = Mechanism.ECDSA if curve == "secp256k1" else Mechanism.EDDSA
        key = self._private(label)
        return [bytes(key.sign(bytes.fromhex(digest), mechanism=mechanism)).hex() for digest in digests]

    def _private(self, label: str) -> Any:
        from pkcs11 import Attribute, ObjectClass

        if label not in self._keys:
            found = self._one(label, ObjectClass.PRIVATE_KEY, "private")
            if not found[Attribute.SIGN]:
                raise _Refusal("settings", f"key {label!r} is not made for signing")
            self._keys[label] = found
        return self._keys[label]

    def _one(self, label: str, kind: Any, word: str) -> Any:
        from pkcs11 import Attribute

        found = list(self._session.get_objects({Attribute.LABEL: label, Attribute.CLASS: kind}))
        if not found:
            raise _Refusal("settings", f"the token has no {word} key {label!r}")
        if len(found) > 1:
            raise _Refusal("settings", f"the token has {len(found)} {word} keys {label!r}; labels must be unique")
        return found[0]


def _answer(token: _Token, asked: dict[str, Any]) -> dict[str, Any]:
    if asked["do"] == "describe":
        return token.describe(asked["key"])
    return {"signatures": token.sign(asked["key"], asked["curve"], asked["digests"])}


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    try:
        token = _Token(json.loads(sys.stdin.readline()))
    except ModuleNotFoundError:
        return _tell({"error": "settings", "message": "install txmanager[pkcs11] for this signer"})
    except _Refusal as refusal:
        return _tell({"error": refusal.kind, "message": str(refusal)})
    except Exception as error:
        return _tell({"error": "away", "message": f"the module failed ({type(error).__name__})"})
    _tell({})
    for line in sys.stdin:
        try:
            answer = _answer(token, json.loads(line))
        except _Refusal as refusal:
            answer = {"error": refusal.kind, "message": str(refusal)}
        except Exception as error:
            # What the session says may quote anything: its type is enough. A broken session is opened anew.
            answer = {"error": _kind(error), "message": f"the module failed ({type(error).__name__})", "over": True}
        _tell(answer)
        if answer.get("over"):
            return None
    return None


def _kind(error: Exception) -> str:
    refusals = ("KeyFunctionNotPermitted", "UserNotLoggedIn", "ActionProhibited", "FunctionRejected", "PinExpired")
    return "refused" if type(error).__name__ in refusals else "away"


if __name__ == "__main__":
    main()
