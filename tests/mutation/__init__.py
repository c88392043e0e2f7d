"""Mutation testing: small mistakes are put into a module one by one, and its tests must notice each."""
