"""Where intents live: one protocol (`core.ledger.Ledger`), several backends, one conformance suite."""
