"""Right and wrong trajectories, by the reading and the exact match of the evaluation harness."""

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
    """1 where the last answer is a reference but for case, articles and punctuation, else 0.

    A trajectory that was not played, or gave no answer, is wrong.
    """
    played = read_trajectory(trajectory)
    said = squad_normalise(played.extracted or played.answer or "")
    golds = references(Sample.from_dict(trajectory.sample))
    return float(bool(said) and any(said == squad_normalise(gold) for gold in golds))


@dataclass(frozen=True, slots=True)
class Scores:
    """Trajectories about one part, question by question in the order of their ids.

    Args:
        documents: that the questions are about.
        kinds: of the questions.
        right: 1 where the answer was right.
        reward: of the trajectories.
    """

    documents: tuple[str, ...]
    kinds: tuple[str, ...]
    right: tuple[float, ...]
    reward: tuple[float, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.documents), len(self.kinds), len(self.right), len(self.reward)}
        if len(lengths) != 1 or not self.documents:
            raise UserError(
                f"scores need as many documents, kinds and numbers as questions, found {lengths}"
            )

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return fmean(self.right)

    def of_kind(self, kind: str) -> float:
        """Share of right answers to questions of a kind."""
        return fmean(
            value for value, each in zip(self.right, self.kinds, strict=True) if each == kind
        )

    @classmethod
    def of(cls, trajectories: Iterable[Trajectory]) -> Scores:
        """Score trajectories, one a question.

        Raises:
            UserError: a trajectory was masked, so that a service failed.
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
        """The inverse of `dataclasses.asdict`."""
        return cls(
            tuple(map(str, data["documents"])),
            tuple(map(str, data["kinds"])),
            tuple(map(float, data["right"])),
            tuple(map(float, data["reward"])),
        )
