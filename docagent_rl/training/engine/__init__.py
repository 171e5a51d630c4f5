"""A model in this process, played token by token as a run of the trainer validates."""
