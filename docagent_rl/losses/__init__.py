"""Losses that verl does not have: the divergence from the reference on observation tokens."""
