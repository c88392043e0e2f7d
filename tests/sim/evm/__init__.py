"""EVM lanes in the simulator: a pure chain, workers that die, and a checker that knows only what is owed."""
