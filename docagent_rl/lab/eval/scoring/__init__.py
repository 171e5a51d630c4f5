"""Scoring of recorded trajectories: official scores, navigation and use (`docs/report.md`)."""
