"""Document agents trained by reinforcement learning inside an unmodified verl."""

__version__ = "0.1.0"
