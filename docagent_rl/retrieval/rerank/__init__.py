"""Reranking: a model that reads query and page together scores the best pages of a search anew."""
