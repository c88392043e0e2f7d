"""Seeded bugs: each a small, plausible mistake, put in by patching and never present in the code itself.

A simulator that does not catch them proves nothing. Each says which promise it breaks.
"""

from tests.sim.mutants import durability, endings, found, keeping, operators, ownership, signing
from tests.sim.mutants.registry import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "durability", "endings", "found", "keeping", "operators", "ownership", "signing"]
