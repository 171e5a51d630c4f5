"""What each node of a cluster sees of a run's files and services."""
