"""Runs as data: the trajectories, turns, terms, tokens, metrics, credit and scores of a run of any
kind as Arrow tables, for notebooks and queries.
"""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
