"""Many concurrent trajectories through verl's agent loop: scripts reply instead of vLLM."""
