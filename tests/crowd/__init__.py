"""Many trajectories at a time through the agent loop that verl runs: scripts speak instead of
vLLM.
"""
