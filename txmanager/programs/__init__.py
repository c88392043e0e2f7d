"""The programs: each reads its settings, wires its parts and runs until it is told to stop."""
