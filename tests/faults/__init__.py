"""Damage to input in large numbers, and how the code reacts (`docs/faults.md`)."""
