"""The pure heart: models, states, routing and decisions. No I/O, no clock, no randomness of its own."""
