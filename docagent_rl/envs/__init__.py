"""Systems of your own: environments, their turns and effects, the actions that they read."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
