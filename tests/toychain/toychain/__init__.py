"""A chain in a package of its own: one nonce per account, every transaction final at once, its node a process."""
