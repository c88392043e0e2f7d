"""What accepts intents: callers, their batches, their nonces. Runs in the API and in `TxManager`."""
