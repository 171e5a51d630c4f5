"""Rehearsals: runs of a recipe at its own size, with a tiny model and a policy that fills rows."""
