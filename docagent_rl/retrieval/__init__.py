"""Retrieval of pages: for a query, the best pages of a document or of all documents."""

from docagent_rl.retrieval.base import Hit, Retriever

__all__ = ["Hit", "Retriever"]
