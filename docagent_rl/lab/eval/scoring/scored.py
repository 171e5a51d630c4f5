"""A scored trajectory, and the file of them: one JSON line each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable

VERSION = 1


@dataclass(frozen=True, slots=True)
class ScoredTrajectory:
    """One trajectory of one question, scored.

    Args:
        question_id: the question.
        number: among those of the question.
        document: that the question is about; intervals resample documents.
        dataset: of the sample.
        system: that was played.
        agent: who played it, by its name in the run.
        status: how the trajectory ended (`rollout.trajectory.Status`).
        reason: what ended it, or why it is masked.
        scored: its right answer is known; else only navigation and use say something.
        answer: the system's answer; `None` where there was none.
        prediction: what was compared with the right answer.
        labels: by kind (`labels.labels_of`).
        groups: lines of the benchmark's own table that the question stands in.
        values: numbers by name (`protocols`, `use`).
        experts: what each expert made of the answer: `value`, `by`, `failed`.
        second: the same of the second judge.
        environment: the environment's own numbers.
    """

    question_id: str
    number: int
    document: str
    dataset: str
    system: str
    agent: str
    status: str
    reason: str
    scored: bool
    answer: str | None
    prediction: Any
    labels: dict[str, list[str]]
    groups: list[str]
    values: dict[str, float | None]
    experts: dict[str, dict[str, Any]] = field(default_factory=dict)
    second: dict[str, dict[str, Any]] = field(default_factory=dict)
    environment: dict[str, float] = field(default_factory=dict)
    version: int = VERSION

    def to_json(self) -> str:
        """Return one line; what JSON cannot hold of a prediction becomes text, of numbers null."""
        data = asdict(self) | {"prediction": plain(self.prediction)}
        for name in ("values", "environment"):
            data[name] = {key: _finite(value) for key, value in data[name].items()}
        return encodable(json.dumps(data, ensure_ascii=False, allow_nan=False))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ScoredTrajectory:
        """Read the parsed line of `to_json`.

        Raises:
            UserError: it is no scored trajectory of this release.
        """
        if data.get("version") != VERSION or set(data) != {each.name for each in fields(cls)}:
            raise UserError("not a scored trajectory of this release: remove the file and score again")
        return cls(**data)


def plain(value: Any) -> Any:
    """Return a value as JSON holds it, else its text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return str(value)
    except (ValueError, RecursionError):  # a number of thousands of digits
        return None


def read_scores(path: Path) -> Iterator[ScoredTrajectory]:
    """Read scored trajectories line by line.

    Raises:
        UserError: names the file and the line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                data = json.loads(line)
                if not isinstance(data, dict):
                    raise UserError("no JSON object")
                yield ScoredTrajectory.from_dict(data)
            except (ValueError, TypeError, RecursionError, UserError) as error:
                raise UserError(f"{path}, line {number}: {error}") from error


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
