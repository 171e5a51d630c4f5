"""Play with a model in this process, token by token, as a training run does in validation."""
