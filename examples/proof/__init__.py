"""A proof for each system that training teaches it something, with controls and ablations.

PYTHONPATH=examples python -m proof run --system alden --out /data/proof

The command measures the units of a system that have no result yet; a unit is a run with one arm and
one seed. `python -m proof table` makes the table of the committed results. docs/proof.md has the
results.
"""
