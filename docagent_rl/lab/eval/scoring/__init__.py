"""From recorded trajectories to scored ones: official scores, navigation and use
(`docs/report.md`).
"""
