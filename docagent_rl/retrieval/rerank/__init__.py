"""Reranking: a model that reads query and page together rescores the best pages of a search."""
