"""Retrieval of pages: for a query, the best pages of a document or of all documents."""

from __future__ import annotations

from docagent_rl.retrieval.base import Hit, Retriever
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.retrieval.tokens import Stemmer

__all__ = ["BM25Retriever", "BM25Settings", "Hit", "Retriever", "Stemmer"]
