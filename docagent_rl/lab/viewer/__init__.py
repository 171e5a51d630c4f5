"""The browser view of a run's folder: its trajectories with the pages they saw, its numbers and its
warnings.
"""
