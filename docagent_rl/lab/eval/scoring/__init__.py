"""From the recorded trajectories of a run to scored ones: official scores, navigation and use, a line a
trajectory.

`docs/report.md` says which numbers a benchmark gets and who judges them.
"""
