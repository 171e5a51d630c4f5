"""Questions about documents, and files of questions."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
