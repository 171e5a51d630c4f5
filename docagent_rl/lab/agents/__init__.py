"""Agents that play systems over questions: models behind endpoints, scripts, texts given turn by
turn.
"""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
