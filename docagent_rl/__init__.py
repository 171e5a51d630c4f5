"""Document agents trained by reinforcement learning inside an unmodified verl."""

__version__ = "0.2.0"
