"""How long a type-2 signature takes, directly and by eth-account: `python -m bench.evm_codec`."""

from __future__ import annotations

import time
from collections.abc import Callable

from eth_account import Account

from txmanager.chains.evm.names import checksummed
from txmanager.chains.evm.transaction import Body, Fees, sign_any
from txmanager.signing.evm import EvmSigner
from txmanager.signing.secret import Secret

Sign = Callable[[int, int, Fees, Body, EvmSigner], object]
KEY = b"\x17" * 32


def by_eth_account(chain_id: int, nonce: int, fees: Fees, body: Body, _: EvmSigner) -> object:
    told = {
        "type": 2,
        "chainId": chain_id,
        "nonce": nonce,
        "gas": body.gas,
        "to": checksummed(body.to.hex()),
        "value": body.value,
        "data": body.data,
        "maxFeePerGas": fees.max_fee,
        "maxPriorityFeePerGas": fees.tip,
        "accessList": [],
    }
    return Account.sign_transaction(told, KEY)


def microseconds(sign: Sign, count: int, rounds: int = 7) -> float:
    signer = EvmSigner(Secret(KEY))
    body, fees = Body(b"\x11" * 20, 10**18, b"\xab" * 68, 60_000), Fees(10**10, 10**9)
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for nonce in range(count):
            sign(1, nonce, fees, body, signer)
        best = min(best, (time.process_time() - began) / count)
    return best * 1e6


def main() -> None:
    direct, slow = microseconds(sign_any, 2_000), microseconds(by_eth_account, 200)
    print(f"direct       {direct:8.1f} us")
    print(f"eth-account  {slow:8.1f} us")
    print(f"             {slow / direct:8.1f} times faster")


if __name__ == "__main__":
    main()
