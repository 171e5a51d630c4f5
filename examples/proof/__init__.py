"""A learning proof for each system: warm start, reinforcement learning, controls and ablations, in
one table.

PYTHONPATH=examples python -m proof run --system alden --out /data/proof

does the next units of a system and keeps what is done; `python -m proof table` makes the table of
the results that are committed. docs/proof.md says what was found.
"""
