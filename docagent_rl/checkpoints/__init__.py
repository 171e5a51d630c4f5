"""Checkpoints of a run: their files, whether they are intact, and which one a run resumes from."""
