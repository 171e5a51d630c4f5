"""Probes: the same questions over pages that say nothing, or something else."""

from docagent_rl.lab.eval.probe.conditions import Condition, shown_store

__all__ = ["Condition", "shown_store"]
