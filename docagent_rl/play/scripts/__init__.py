"""Scripts that play the systems: right, with detours, or by chance."""
