"""The surroundings of training, which it never imports: agents, evaluation, data, viewer, tiny models."""
