"""What surrounds training and is never imported by it: agents, evaluation, data, viewer, tiny models."""
