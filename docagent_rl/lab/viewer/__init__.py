"""A page over the folder of a run: its trajectories with the pages they saw, its numbers, its
warnings.
"""
