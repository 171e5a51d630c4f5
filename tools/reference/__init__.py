"""Generators of the pages of reference and of the JSON schemas (`python -m tools.reference`)."""
