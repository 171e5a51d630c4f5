"""The full, serialisable record of one session: one JSON line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from docagent_rl.envs.base import ImagePart, Observation
from docagent_rl.errors import UserError

VERSION = 1


class Status(Enum):
    """How a session ended."""

    FINISHED = "finished"
    """The policy answered."""
    UNFINISHED = "unfinished"
    """A limit ended the session."""
    MASKED = "masked"
    """Infrastructure failed or the sample cannot be played: no loss, no statistics, no reward."""


@dataclass(slots=True)
class TurnRecord:
    """One turn.

    Args:
        text: decoded sampled text.
        stop: why sampling ended.
        token_ids: sampled ids.
        log_probs: log-probabilities of the sampled ids as the rollout server reports them.
        reward: the turn's reward.
        terms: the reward terms of the turn by name.
        info: what the environment made of the turn.
        observation: messages that followed; images by reference.
        observation_tokens: tokens of the observation that entered the context.
        dropped: the observation did not fit and was left out whole.
        seconds: wall time by phase (`generate`, `step`, `encode`).
        trainer_log_probs: log-probabilities of the sampled ids as the trainer computes them.
        row: the training row of the session that the turn belongs to, from 0.
        token_terms: `(name, first, end, value)` of terms on tokens inside the turn; a value is split evenly.
    """

    text: str
    stop: str
    token_ids: list[int]
    log_probs: list[float]
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    observation: list[dict[str, Any]] = field(default_factory=list)
    observation_tokens: int = 0
    dropped: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    trainer_log_probs: list[float] | None = None
    row: int = 0
    token_terms: list[tuple[str, int, int, float]] = field(default_factory=list)


@dataclass(slots=True)
class Trajectory:
    """One session of one question.

    Args:
        uid: the prompt group.
        session: number of the session in its group.
        step: the trainer's step.
        split: `train` or `val`.
        record: the canonical record of the question.
        system: the system that was played.
        status: how it ended.
        end: what ended it (`answered`, `turn_limit`, `context_full`), or the reason of the mask.
        error: message of the failure that masked the session.
        attempts: sessions that were started for it.
        prompt: the messages of the prompt.
        prompt_tokens: tokens of the prompt.
        response_tokens: tokens of the response region.
        turns: the turns.
        reward: sum of all rewards.
        metrics: the environment's numbers by name.
        image_preprocessings: images that this session had to preprocess.
        text: the environment's own text of the session, if it has such a form.
    """

    uid: str
    session: int
    step: int
    split: str
    record: dict[str, Any]
    system: str
    status: str = Status.UNFINISHED.value
    end: str = ""
    error: str | None = None
    attempts: int = 1
    prompt: list[dict[str, Any]] = field(default_factory=list)
    prompt_tokens: int = 0
    response_tokens: int = 0
    turns: list[TurnRecord] = field(default_factory=list)
    reward: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    image_preprocessings: int = 0
    text: str | None = None
    version: int = VERSION

    @property
    def masked(self) -> bool:
        """The session is left out of the loss and of all statistics."""
        return self.status == Status.MASKED.value

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, default=_plain)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trajectory:
        """The inverse of `to_json` after parsing.

        Raises:
            UserError: another version or unknown fields.
        """
        if data.get("version") != VERSION:
            raise UserError(f"trajectory version {data.get('version')!r}; this release reads {VERSION}")
        values = dict(data)
        try:
            values["turns"] = [TurnRecord(**turn) for turn in values.get("turns", [])]
            return cls(**values)
        except TypeError as error:
            raise UserError(f"not a trajectory: {error}") from error


def describe(observation: Observation) -> list[dict[str, Any]]:
    """Messages of an observation, ready for JSON; images by reference, never by content."""
    return [
        {
            "role": message.role.value,
            "parts": [
                {"image": part.image.to_dict()} if isinstance(part, ImagePart) else {"text": part.text}
                for part in message.parts
            ],
        }
        for message in observation.messages
    ]


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Read a trajectory file line by line.

    Raises:
        UserError: names the file and the line that cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{file}: no such trajectory file")
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield Trajectory.from_dict(json.loads(line))
            except (json.JSONDecodeError, UserError) as error:
                raise UserError(f"{file}, line {number}: {error}") from error


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} cannot be written to a trajectory")
