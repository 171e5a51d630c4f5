"""The part of a trajectory that the trainer needs, without tokens, messages and the question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from docagent_rl.base.text import encodable
from docagent_rl.config import TextConfig, TrajectoryText
from docagent_rl.rollout.trajectory import Status, Trajectory, jsonable


@dataclass(slots=True)
class TurnDigest:
    """One turn; `sampled` is its number of tokens, and `text` is used to compare trajectories."""

    row: int
    sampled: int
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    token_terms: list[tuple[str, int, int, float]] = field(default_factory=list)
    text: str = ""


@dataclass(slots=True)
class TrajectoryDigest:
    """One trajectory; fields with the same names as in `Trajectory` have the same meaning.

    Args:
        text: the text by which trajectories are compared.
        search_s: latencies of the searches that were not cached, by retriever.
        evidence: the fields of `Trajectory.evidence`.
        seconds: wall time of all turns by phase (`TrajectoryTurn.seconds`).
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
    prefill_new: int
    prefill_computed: int
    turns: list[TurnDigest]
    replays: int = 0
    text: str = ""
    search_s: dict[str, list[float]] = field(default_factory=dict)
    evidence: tuple[str | None, bool | None, str | None, str | None] = (None, None, None, None)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, trajectory: Trajectory, config: TextConfig | None = None) -> TrajectoryDigest:
        """Return the digest of a finished trajectory; `config` selects its texts."""
        config = config or TextConfig()
        texts = [turn.text.strip() for turn in trajectory.turns]
        text = joined_texts(texts if config.include_answer else texts[:-1])
        if config.source is TrajectoryText.ENVIRONMENT:
            # texts that the environment has set go before those that the policy wrote
            text = text if trajectory.text is None else trajectory.text
            given = [turn.record.text for turn in trajectory.turns]
            texts = [
                written if of_environment is None else of_environment
                for of_environment, written in zip(given, texts, strict=True)
            ]
        turns = [
            TurnDigest(turn.row, turn.sampled, turn.reward, turn.terms, turn.token_terms, own_text)
            for turn, own_text in zip(trajectory.turns, texts, strict=True)
        ]
        evidence = astuple(trajectory.evidence)
        seconds: Counter[str] = Counter()
        for turn in trajectory.turns:
            seconds.update(turn.seconds)
        values: dict[str, Any] = {
            "turns": turns,
            "text": text,
            "evidence": evidence,
            "seconds": dict(seconds),
        }
        copied = [each.name for each in fields(cls) if each.name not in values]
        return cls(**values, **{name: getattr(trajectory, name) for name in copied})

    @property
    def masked(self) -> bool:
        """Return whether the trajectory is left out of the loss and of all statistics."""
        return self.status == Status.MASKED.value

    def to_json(self) -> str:
        """Return the digest as JSON."""
        return encodable(json.dumps(self, ensure_ascii=False, default=jsonable))

    @classmethod
    def from_json(cls, text: str) -> TrajectoryDigest:
        """Parse the output of `to_json`."""
        values: dict[str, Any] = json.loads(text)
        values["turns"] = [TurnDigest(**turn) for turn in values["turns"]]
        values["evidence"] = tuple(values["evidence"])
        return cls(**values)


def joined_texts(texts: Iterable[str]) -> str:
    """Join the texts that are not empty, one per line."""
    return "\n".join(text for text in texts if text)
