"""Tiny but real models, for tests and for runs on a laptop."""
