"""Building blocks for custom systems: environments, turns, effects, and the actions they parse."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
