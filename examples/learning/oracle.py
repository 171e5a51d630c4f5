"""The oracle of the task, which finds the page and knows its number."""

from __future__ import annotations

from docagent_rl.rollout.trajectory import Trajectory

EXTRA_WORD = "word"
"""The key of a sample's `extra` with the word of the page that the question is about."""


def oracle(trajectory: Trajectory) -> str:
    """Return the next turn: search for the question's word, then give the right answer."""
    sample = trajectory.sample
    if len(trajectory.turns) == 0:
        return f"<search>{sample['extra'][EXTRA_WORD]}</search>"
    return f"<answer>{sample['answers'][0]}</answer>"
