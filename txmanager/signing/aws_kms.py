"""The `aws-kms` provider: keys that never leave AWS, asked over our own HTTP.

botocore signs requests and finds credentials, nothing else; its refresh blocks, so it runs in a thread. An alias is
resolved once: what is signed for the rest of the process is the key that it named then.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from txmanager.core.errors import InvalidSettings, SignerAway, SignerFault, SignerRefused
from txmanager.core.values import value
from txmanager.rpc.errors import RpcFailure
from txmanager.rpc.post import Poster
from txmanager.signing.limiter import Limiter
from txmanager.signing.remote import PublicHalf
from txmanager.signing.signer import Answer, SigningRequest
from txmanager.signing.sources import Curve

_CURVES = {"ECC_SECG_P256K1": Curve.SECP256K1, "ECC_NIST_EDWARDS25519": Curve.ED25519}
_SIZES = {Curve.SECP256K1: 65, Curve.ED25519: 32}
_HOW = {
    Curve.SECP256K1: {"MessageType": "DIGEST", "SigningAlgorithm": "ECDSA_SHA_256"},
    # Never the PH form: NEAR verifies plain Ed25519 over the 32-byte digest.
    Curve.ED25519: {"MessageType": "RAW", "SigningAlgorithm": "ED25519_SHA_512"},
}
_THROTTLED = ("ThrottlingException", "TooManyRequestsException", "LimitExceededException", "RequestLimitExceeded")
_LATER = (
    "KeyUnavailableException",
    "DependencyTimeoutException",
    "KMSInternalException",
    "InternalFailure",
    "ServiceUnavailable",
    "RequestTimeout",
    "RequestExpired",
)
_EXPIRED = ("ExpiredTokenException", "ExpiredToken")


@value(frozen=True, slots=True)
class KmsOptions:
    region: str
    endpoint: str | None = None
    profile: str | None = None
    name: str = "aws"
    timeout_s: float = 5.0
    max_concurrent: int = 32
    per_second: float | None = None

    @property
    def url(self) -> str:
        return self.endpoint or f"https://kms.{self.region}.amazonaws.com"


class KmsProvider:
    def __init__(self, options: KmsOptions) -> None:
        self._options = options
        self._poster = Poster(options.url, options.timeout_s)
        self._credentials: Any = None
        self._frozen: Any = None
        self._keys: dict[str, str] = {}
        """The ARN of every key that was asked for, by the name it has in the configuration."""
        self.limiter = Limiter(options.max_concurrent, options.per_second)

    async def describe(self, key: str) -> PublicHalf:
        answer = await self._ask("GetPublicKey", {"KeyId": key})
        where = f"signers.{self._options.name}"
        curve = _CURVES.get(str(answer.get("KeySpec")))
        if curve is None:
            wanted = " or ".join(_CURVES)
            raise InvalidSettings(where, f"key {key!r} is {answer.get('KeySpec')}; a relayer's key is {wanted}")
        if answer.get("KeyUsage") != "SIGN_VERIFY":
            raise InvalidSettings(where, f"key {key!r} is for {answer.get('KeyUsage')}, not for SIGN_VERIFY")
        self._keys[key] = str(answer["KeyId"])
        return PublicHalf(curve, base64.b64decode(answer["PublicKey"])[-_SIZES[curve] :])

    async def sign_many(self, key: str, curve: Curve, requests: Sequence[SigningRequest]) -> list[Answer]:
        try:
            if key not in self._keys:
                await self.describe(key)
        except SignerFault as fault:
            return [fault] * len(requests)
        except InvalidSettings as wrong:  # another key has the alias now
            return [SignerRefused(str(wrong))] * len(requests)
        return list(await asyncio.gather(*(self._sign(self._keys[key], curve, request) for request in requests)))

    async def close(self) -> None:
        self._poster.close()

    # -- parts

    async def _sign(self, arn: str, curve: Curve, request: SigningRequest) -> Answer:
        asked = {"KeyId": arn, "Message": base64.b64encode(request.digest).decode(), **_HOW[curve]}
        try:
            async with self.limiter.turn(urgent=request.urgent):
                answer = await self._ask("Sign", asked)
            signature = base64.b64decode(answer["Signature"])
            return signature if curve is Curve.ED25519 else read_der(signature)
        except SignerFault as fault:
            return fault
        except (KeyError, TypeError, ValueError):
            return SignerAway(f"{self._options.name}: the answer of the KMS could not be read")

    async def _ask(self, operation: str, asked: dict[str, str]) -> dict[str, Any]:
        options, body = self._options, json.dumps(asked).encode()
        headers = await self._signed(operation, body)
        try:
            response = await self._poster.ask(body, headers)
        except RpcFailure as failure:
            raise SignerAway(f"{options.name}: {failure}") from None
        try:
            answer = json.loads(response.body)
        except ValueError:
            answer = {}
        if response.status == 200 and isinstance(answer, dict):
            return answer
        kind = str(answer.get("__type", "")).rpartition("#")[2] if isinstance(answer, dict) else ""
        words = f"{options.name}: the KMS answered {response.status} {kind} to {operation}".replace("  ", " ")
        if kind in _THROTTLED or response.status == 429:
            self.limiter.throttled()
            raise SignerAway(words)
        if kind in _EXPIRED:
            self._frozen = None  # a rotated credential may be there already
            raise SignerAway(words)
        if response.status >= 500 or kind in _LATER or not kind:
            raise SignerAway(words)
        raise SignerRefused(words)

    async def _signed(self, operation: str, body: bytes) -> dict[str, str]:
        """The headers of a request, signed (SigV4)."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        options = self._options
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"TrentService.{operation}"}
        request = AWSRequest("POST", options.url, headers=headers, data=body)
        SigV4Auth(await self._current_credentials(), "kms", options.region).add_auth(request)
        return dict(request.headers.items())

    async def _current_credentials(self) -> Any:
        stale = getattr(self._credentials, "refresh_needed", None)
        if self._frozen is None or (stale is not None and stale()):
            self._frozen = await asyncio.to_thread(self._find_credentials)
        return self._frozen

    def _find_credentials(self) -> Any:
        from botocore.session import Session

        try:
            self._credentials = Session(profile=self._options.profile).get_credentials()
        except Exception as error:  # its text may name paths and roles: the type is enough
            raise SignerAway(f"{self._options.name}: no credentials ({type(error).__name__})") from None
        if self._credentials is None:
            raise SignerRefused(f"{self._options.name}: no AWS credentials were found")
        return self._credentials.get_frozen_credentials()


def read_der(signature: bytes) -> bytes:
    """r and s, 32 bytes each, of an ECDSA signature in DER."""
    if signature[:1] != b"\x30" or len(signature) != signature[1] + 2:
        raise ValueError("not a DER sequence")
    numbers, rest = [], signature[2:]
    for _ in range(2):
        if rest[:1] != b"\x02":
            raise ValueError("not a DER integer")
        size = rest[1]
        numbers.append(int.from_bytes(rest[2 : 2 + size], "big"))
        rest = rest[2 + size :]
    return b"".join(number.to_bytes(32, "big") for number in numbers)
