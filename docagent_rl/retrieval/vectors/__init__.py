"""Indexes of vectors: dense ones and those of late interaction."""
