"""Damaged input in great numbers, and what becomes of it (`docs/faults.md`)."""
