"""The promises of every client, by name. Each client keeps each of them: `test_promises.py` for Python,
`clients/typescript/test/promises.ts` for TypeScript. A test compares the names."""

PROMISES = {
    "webhook": "a genuine webhook is accepted; a forged, replayed or late one is not",
    "lost_answer": "a lost answer is retried under the same key: one intent, one effect",
    "leaky_network": "with every third answer lost, every intent has exactly one effect",
    "retry_after": "a 429 is repeated after its Retry-After, not before",
    "unconfirmed": "a 503 that may have been accepted is repeated with the same key: one effect",
    "api_restart": "a wait goes on across a kill -9 and restart of the API",
    "resumed_stream": "a stream that was cut goes on where it broke, nothing missing and nothing twice",
    "exact_amounts": "amounts beyond 2^53 arrive and come back to the last digit",
    "abort": "ending a call ends the wait, never the intent",
    "abort_stream": "ending a stream ends it at once",
    "time_out": "a server that is silent is given up after the time for retries; the same key finds the intent",
    "still_waiting": "a wait that is too short says where the intent stands; it goes on",
    "not_repeated": "what another try cannot help is asked once: a wrong field, an unknown key, a reused key",
    "execute": "execute answers hash and outcome, the same for ever; a failure names the record",
    "recover": "a recovery is tried once per account and message",
    "create_account": "an account is created once, whoever asks again",
    "many": "a thousand intents over a network that loses every third answer: each has one answer and one effect",
    "batch": "a batch answers each intent by itself; the same batch replays what was accepted",
    "paced": "a token's rate slows many intents down; none is refused",
    "silent_about_secrets": "no error and no printed client shows the token",
}

NOT_RESIDENT = {
    "webhook": "sends no webhooks: callers wait or follow",
    "many": "takes no batches",
    "batch": "takes no batches",
    "paced": "takes no batches",
}
"""What the front of resident lanes does not serve, and so cannot be asked."""
RESIDENT = [name for name in PROMISES if name not in NOT_RESIDENT]
