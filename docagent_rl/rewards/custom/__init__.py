"""Custom reward functions: their configuration, loading, signatures, calls and results."""
