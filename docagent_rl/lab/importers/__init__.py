"""Importers of public benchmarks, and what one of your own is made of."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
