"""How long a type-2 signature takes, directly and by eth-account: `python -m bench.evm_codec`."""

from __future__ import annotations

import time
from collections.abc import Callable

from txmanager.chains.evm.transaction import Body, Fees, Signed, sign_dynamic, sign_slowly
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret

Sign = Callable[..., Signed]


def microseconds(sign: Sign, count: int, rounds: int = 7) -> float:
    signer = EvmSigner(Secret(b"\x17" * 32))
    body, fees = Body(b"\x11" * 20, 10**18, b"\xab" * 68, 60_000), Fees(10**10, 10**9)
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for nonce in range(count):
            sign(1, nonce, fees, body, signer)
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


def main() -> None:
    direct, slow = microseconds(sign_dynamic, 2_000), microseconds(sign_slowly, 200)
    print(f"direct       {direct:8.1f} us")
    print(f"eth-account  {slow:8.1f} us")
    print(f"             {slow / direct:8.1f} times faster")


if __name__ == "__main__":
    main()
