"""The simulator: the production worker, producer, decide and ledger under virtual time, seeded faults and a checker.

One integer decides everything. `python -m tests.sim --help`, or `make sim`; docs/simulation.md says what it proves.
"""
