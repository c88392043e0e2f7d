"""EVM: codec, intents, fees, verdicts, and `EvmChain`, which makes them a `Chain`."""
