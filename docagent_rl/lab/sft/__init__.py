"""Recorded trajectories for supervised trainers: verl's own, and others."""

from enum import StrEnum


class TrajectoryFormat(StrEnum):
    """The trainer that reads the trajectories."""

    LLAMAFACTORY = "llamafactory"
    TRL = "trl"
