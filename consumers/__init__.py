"""Starts the programs from a clone: `python -m consumers.lanes` is `python -m txmanager.programs.worker`."""
