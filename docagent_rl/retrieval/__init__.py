"""Retrieval: for a query, the best pages of a document or of all documents."""

from docagent_rl.base.public import exporter

__getattr__ = exporter(__name__, __file__)
