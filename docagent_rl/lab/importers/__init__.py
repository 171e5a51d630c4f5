"""Importers of public benchmarks, and the parts from which users build their own."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
