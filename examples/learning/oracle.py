"""The oracle of the task: finds the page and knows its number."""

from __future__ import annotations

from docagent_rl.rollout.trajectory import Trajectory

EXTRA_WORD = "word"
"""Key of a sample's `extra` that holds the word of the page that is asked for."""


def oracle(trajectory: Trajectory) -> str:
    """The next turn: search the word of the question, then give the reference."""
    sample = trajectory.sample
    if len(trajectory.turns) == 0:
        return f"<search>{sample['extra'][EXTRA_WORD]}</search>"
    return f"<answer>{sample['answers'][0]}</answer>"
