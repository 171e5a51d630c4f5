"""Score trajectories as right or wrong, with the exact match of the evaluation harness."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.checks import references
from docagent_rl.lab.eval.scoring.played import read_trajectory
from docagent_rl.rewards.text import squad_normalise
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


def right(trajectory: Trajectory) -> float:
    """Return 1 if the last answer equals a reference, but for case, articles and punctuation.

    Otherwise, and for a trajectory that could not be made or has no answer, return 0.
    """
    played = read_trajectory(trajectory)
    said = squad_normalise(played.extracted or played.answer or "")
    golds = references(Sample.from_dict(trajectory.sample))
    return float(bool(said) and any(said == squad_normalise(gold) for gold in golds))


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of trajectories on the questions of a part, in the order of their ids.

    Args:
        documents: the document of each question.
        kinds: the kind of each question.
        right: 1 for each question whose answer is right, else 0.
        reward: the reward of each trajectory.
    """

    documents: tuple[str, ...]
    kinds: tuple[str, ...]
    right: tuple[float, ...]
    reward: tuple[float, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.documents), len(self.kinds), len(self.right), len(self.reward)}
        if len(lengths) != 1 or not self.documents:
            raise UserError(
                "scores need a document, a kind, a score and a reward for each question; found "
                f"lists of {sorted(lengths)} entries"
            )

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return fmean(self.right)

    def of_kind(self, kind: str) -> float:
        """Return the share of right answers to questions of a kind."""
        return fmean(
            value for value, each in zip(self.right, self.kinds, strict=True) if each == kind
        )

    @classmethod
    def of(cls, trajectories: Iterable[Trajectory]) -> Scores:
        """Score trajectories, one for each question.

        Raises:
            UserError: a trajectory was masked, which means that a service failed.
        """
        ordered = sorted(trajectories, key=lambda t: t.sample["question_id"])
        if masked := [t.sample["question_id"] for t in ordered if t.masked]:
            raise UserError(f"{len(masked)} trajectories were masked, {masked[0]} among them")
        return cls(
            documents=tuple(t.sample["doc_id"] for t in ordered),
            kinds=tuple(t.sample["extra"]["kind"] for t in ordered),
            right=tuple(map(right, ordered)),
            reward=tuple(round(t.reward, 4) for t in ordered),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Scores:
        """Make scores from the dictionary that `dataclasses.asdict` returned."""
        return cls(
            tuple(map(str, data["documents"])),
            tuple(map(str, data["kinds"])),
            tuple(map(float, data["right"])),
            tuple(map(float, data["reward"])),
        )
