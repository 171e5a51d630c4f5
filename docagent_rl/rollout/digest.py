"""The numbers of a trajectory that a trainer needs, without tokens, messages and the question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from docagent_rl.base.text import encodable
from docagent_rl.rollout.trajectory import Status, Trajectory, plain


@dataclass(slots=True)
class TurnDigest:
    """One turn: `sampled` counts its tokens, and `text` stands for it where trajectories are compared."""

    row: int
    sampled: int
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    token_terms: list[tuple[str, int, int, float]] = field(default_factory=list)
    text: str = ""


@dataclass(slots=True)
class TrajectoryDigest:
    """One trajectory; the fields of the same names are those of `Trajectory`.

    Args:
        text: of the whole trajectory where it is not that of its turns.
        search_s: seconds of the searches that were not known before, by retriever.
        evidence: the fields of `Trajectory.evidence`.
    """

    uid: str
    number: int
    step: int
    question_id: str | None
    status: str
    end: str
    error: str | None
    attempts: int
    reward: float
    metrics: dict[str, float]
    image_preprocessings: int
    image_loads: int
    turns: list[TurnDigest]
    text: str | None = None
    search_s: dict[str, list[float]] = field(default_factory=dict)
    evidence: tuple[str | None, bool | None, bool | None, str | None] = (None, None, None, None)

    @classmethod
    def of(
        cls, trajectory: Trajectory, *, turn_texts: Sequence[str] | None = None, text: str | None = None
    ) -> TrajectoryDigest:
        """Return the digest of a finished trajectory, with texts for its turns."""
        texts = turn_texts or [""] * len(trajectory.turns)
        turns = [
            TurnDigest(t.row, t.sampled, t.reward, t.terms, t.token_terms, own)
            for t, own in zip(trajectory.turns, texts, strict=True)
        ]
        evidence = astuple(trajectory.evidence)
        values: dict[str, Any] = {"turns": turns, "text": text, "evidence": evidence}
        same = [each.name for each in fields(cls) if each.name not in values]
        return cls(**values, **{name: getattr(trajectory, name) for name in same})

    @property
    def masked(self) -> bool:
        """Return whether the trajectory is left out of the loss and of all statistics."""
        return self.status == Status.MASKED.value

    def to_json(self) -> str:
        """Return it as one text."""
        return encodable(json.dumps(self, ensure_ascii=False, default=plain))

    @classmethod
    def from_json(cls, text: str) -> TrajectoryDigest:
        """Read what `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["turns"] = [TurnDigest(**turn) for turn in values["turns"]]
        values["evidence"] = tuple(values["evidence"])
        return cls(**values)
