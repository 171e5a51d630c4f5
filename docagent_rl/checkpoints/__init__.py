"""Checkpoints of a run: what belongs to them, whether they are whole, and which one a run goes on
from.
"""
