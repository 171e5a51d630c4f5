"""Losses beside verl's: the divergence from the reference on observation tokens."""
