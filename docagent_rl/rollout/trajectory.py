"""A trajectory and its serialised form, one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter, ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.envs.base import ImagePart, Observation
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.rollout.evidence import Evidence, evidence_of

_READ = ConfigDict(extra="forbid", strict=True)
_OF_TRAJECTORY = ("sample", "prompt", "status")
_OF_TURN = ("info", "dropped", "row", "searches", "observation")


class Status(Enum):
    """The status of a trajectory."""

    FINISHED = "finished"
    """The policy answered."""
    UNFINISHED = "unfinished"
    """A limit ended the trajectory."""
    MASKED = "masked"
    """The trajectory is masked for a `MaskReason`: left out of loss and statistics in training, and
    wrong in validation.
    """


class MaskReason(Enum):
    """A reason why a trajectory is masked (`Trajectory.end`)."""

    SAMPLE = "sample"
    """The question cannot be played: its prompt does not fit, it has no reference answer, or its
    document is unknown.
    """
    INFRASTRUCTURE = "infrastructure"
    """A service still failed after its retries."""
    EMPTY = "empty"
    """The policy started with a control token, so it sampled no token that can be trained on.

    A control token represents an image or a turn and must not enter a row, which leaves no token to
    reward or penalise.
    """
    FAILED = "failed"
    """Our code raised an unexpected exception, which ends the run; `Trajectory.error` has its
    traceback.
    """
    MISSING = "missing"
    """An exception ended the trajectory, and verl left it out; detected only in validation."""


@dataclass(slots=True)
class TrajectoryTurn:
    """One turn.

    Args:
        log_probs: log-probabilities of the sampled ids, as reported by the rollout server.
        reward: the turn's reward, even if it was assigned to a token of another turn because this
            turn has no sampled tokens.
        terms: the reward terms of the turn by name, before the system's weights.
        info: the record of the turn (`TurnRecord.to_dict`).
        observation: the messages that followed; images by reference.
        observation_tokens: number of tokens of the observation that entered the context.
        dropped: whether the observation did not fit and was left out as a whole.
        seconds: wall time by phase (`generate`, `step`, `encode`).
        trainer_log_probs: log-probabilities of the sampled ids, as computed by the trainer.
        row: the training row of the trajectory to which the turn belongs, from 0.
        token_terms: `(name, first, end, value)` of terms on tokens inside the turn, before the
            system's weights; a value is split evenly.
    """

    __pydantic_config__ = _READ

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
    searches: list[dict[str, Any]] = field(default_factory=list)
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def record(self) -> TurnRecord:
        """The record of the turn, parsed from `info`."""
        return TurnRecord.from_dict(self.info)

    @property
    def sampled(self) -> int:
        """Return the number of sampled tokens."""
        return len(self.token_ids) or self.completion_tokens


@dataclass(slots=True)
class Trajectory:
    """One trajectory of one question.

    Args:
        number: the number of the trajectory in its group, from 0.
        split: `train` or `val`.
        sample: the sample (`Sample.to_dict`).
        end: what ended it (`answered`, `turn_limit`, `context_full`), or the reason of the mask.
        error: the message of the failure that masked the trajectory, or the traceback
            (`MaskReason.FAILED`).
        attempts: how often the trajectory was started.
        metrics: the environment's metrics by name.
        outcome: whether the answer is right, wrong or unjudged; `None` for a masked trajectory, and
            if the system has no metric for it (`OutcomeMetrics`).
        well_formed: whether the format was fully correct; `None` if nothing scores it.
        image_preprocessings: number of images that were preprocessed for this trajectory.
        image_loads: number of images that the rollout servers fetched for this trajectory.
        prefill_new: number of prompt tokens that later turns added to what the server had seen.
        prefill_computed: number of prompt tokens that the server computed for later turns; more
            than `prefill_new` if its KV cache had lost the trajectory.
        text: the environment's own text of the trajectory, if it defines one.
        replays: how often all trajectories of the rollout were played again from the beginning,
            since a rollout server or an agent worker had died.
    """

    __pydantic_config__ = _READ

    uid: str
    number: int
    step: int
    split: str
    sample: dict[str, Any]
    system: str
    status: str = Status.UNFINISHED.value
    end: str = ""
    error: str | None = None
    attempts: int = 1
    prompt: list[dict[str, Any]] = field(default_factory=list)
    prompt_tokens: int = 0
    response_tokens: int = 0
    turns: list[TrajectoryTurn] = field(default_factory=list)
    reward: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    outcome: Outcome | None = None
    well_formed: bool | None = None
    image_preprocessings: int = 0
    image_loads: int = 0
    prefill_new: int = 0
    prefill_computed: int = 0
    text: str | None = None
    replays: int = 0
    version: Literal[1] = 1

    @property
    def masked(self) -> bool:
        """Return whether the trajectory is left out of the loss and of all statistics."""
        return self.status == Status.MASKED.value

    @property
    def question_id(self) -> str | None:
        """Return the id of the question; `None` if the trajectory failed before it had one."""
        return self.sample.get("question_id")

    @property
    def search_s(self) -> dict[str, list[float]]:
        """Return the latencies of the searches that were not cached, by retriever."""
        found: dict[str, list[float]] = {}
        for search in (search for turn in self.turns for search in turn.searches):
            if search["tries"]:
                found.setdefault(search["retriever"], []).append(search["seconds"])
        return found

    @property
    def evidence(self) -> Evidence:
        """Return how far the finished trajectory got in the evidence funnel."""
        turns = [{name: getattr(turn, name) for name in _OF_TURN} for turn in self.turns]
        outcome = None if self.outcome is None else asdict(self.outcome)
        own = {name: getattr(self, name) for name in _OF_TRAJECTORY}
        return evidence_of({**own, "outcome": outcome, "turns": turns})

    def to_json(self) -> str:
        """Return one line of JSON that can be encoded: lone surrogates become question marks."""
        return encodable(json.dumps(self, ensure_ascii=False, default=jsonable))

    @classmethod
    def from_json(cls, line: str | bytes) -> Trajectory:
        """Parse the output of `to_json`.

        Raises:
            UserError: names the first field that is unknown, missing or of the wrong type.
        """
        try:
            return _READER.validate_json(line)
        except ValidationError as error:
            problem = error.errors()[0]
            field_name = ".".join(map(str, problem["loc"]))
            raise UserError(
                f"not a trajectory: {field_name or 'its line'}: {problem['msg']}"
            ) from None


_READER = TypeAdapter(Trajectory)


def describe_messages(observation: Observation) -> list[dict[str, Any]]:
    """Return the messages of an observation, JSON-ready; images are given by reference."""
    described = []
    for message in observation.messages:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ImagePart):
                parts.append({"image": part.image.to_dict()})
            else:
                parts.append({"text": part.text})
        described.append({"role": message.role.value, "parts": parts})
    return described


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Read a trajectory file line by line.

    Raises:
        UserError: names the file, the line that cannot be parsed, and the field that is wrong.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"{file}: no such trajectory file")
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield Trajectory.from_json(line)
            except UserError as error:
                raise UserError(f"{file}, line {number}: {error}") from error


def jsonable(value: Any) -> Any:
    """Convert a value that `json` does not support: a dataclass, a numpy scalar or an enum.

    Raises:
        TypeError: the value is none of these.
    """
    if is_dataclass(value):  # `asdict` would copy all lists of ids
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} cannot be written to a trajectory")


_HOLE = f'"{uuid4().hex}"'


def line_of(trajectory: Trajectory) -> bytes:
    """Return `Trajectory.to_json` in UTF-8, with a line break for `trainer_log_probs` of each turn.

    The trainer's log-probs are computed later (`filled_line`). The line break is an unambiguous
    placeholder, since JSON on one line contains no others.
    """
    text = json.dumps(trajectory, ensure_ascii=False, default=_with_hole)
    return encodable(text.replace(_HOLE, "\n")).encode()


def _with_hole(value: Any) -> Any:
    written = jsonable(value)
    if isinstance(value, TrajectoryTurn):
        return {**written, "trainer_log_probs": _HOLE[1:-1]}
    return written


def filled_line(line: bytes, log_probs: Iterable[NDArray[np.float64] | None]) -> Iterator[bytes]:
    """Fill the placeholders of `line_of`; yield the pieces of the complete line in order.

    `log_probs` are the trainer's log-probs for the sampled tokens of each turn, `None` if a turn
    has none.

    Raises:
        ValueError: the number of log-probs differs from the number of turns.
    """
    first, *others = line.split(b"\n")
    yield first
    for values, piece in zip(log_probs, others, strict=True):
        yield _numbers(values)
        yield piece


def whole_line(line: bytes) -> bytes:
    """Complete a line of `line_of` without the trainer's log-probs, as for validation."""
    return line.replace(b"\n", b"null")


def _numbers(values: NDArray[np.float64] | None) -> bytes:
    if values is None:
        return b"null"
    if not np.isfinite(values).all():  # orjson writes null for NaN; Python's json writes NaN
        return json.dumps(values.tolist()).encode()
    return orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
