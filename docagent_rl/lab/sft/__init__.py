"""Recorded trajectories as training data for verl's supervised trainer and others."""

from enum import StrEnum


class TrajectoryFormat(StrEnum):
    """The trainer for which trajectories are exported."""

    LLAMAFACTORY = "llamafactory"
    TRL = "trl"
