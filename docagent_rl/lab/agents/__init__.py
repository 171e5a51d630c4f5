"""Agents that play a system's environments: models behind endpoints, scripts, and turns supplied
as text.
"""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
