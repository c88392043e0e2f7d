"""Adapters: one package per chain, each an implementation of `core.chain.Chain`."""
