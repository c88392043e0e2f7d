"""What runs: producers that accept intents, workers that own lanes, and the manager that embeds both."""
