"""The training rows that an agent loop hands to verl, with their turns and token-level rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from pydantic import Field
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from docagent_rl.base.text import encodable
from docagent_rl.config import TextConfig
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import NO_TURN, LedgerRow, TurnLedger
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryLine, whole_line
from docagent_rl.training.trainer.texts import digest

IMAGES = "docagent_images"
VALIDATION = "val"
"""`Trajectory.split` of a validation's trajectories."""
TRAJECTORY = "docagent_trajectory"
DIGEST = "docagent_digest"
"""In `reward_extra_info` of a validation's trajectories: what verl gathers, of each trajectory's last row."""
TRAJECTORY_LINE = "docagent_trajectory_line"
TRAJECTORY_DIGEST = "docagent_trajectory_digest"
"""Fields of the first row of a trajectory to train on; empty in its other rows."""
OUTCOME = "docagent_outcome"


@dataclass(frozen=True, slots=True)
class TrajectoryOutcome:
    """The outcome of a trajectory, as each of its rows has it.

    `masked` ones are left out of the loss and of all statistics, and have no metrics; `reward` is over all
    rows; `reason` is that of the mask, or what ended the trajectory; `metrics` are the environment's,
    reward terms too.
    """

    masked: bool
    reward: float
    reason: str
    metrics: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, trajectory: Trajectory) -> TrajectoryOutcome:
        """Return the outcome of a finished trajectory."""
        masked = trajectory.masked
        reason = f"{trajectory.end}: {trajectory.error}" if trajectory.error else trajectory.end
        return cls(masked, trajectory.reward, encodable(reason), {} if masked else dict(trajectory.metrics))

    @classmethod
    def read(cls, extra_fields: Any) -> TrajectoryOutcome | None:
        """Read the outcome from a row's `extra_fields`; None where another agent loop made the row."""
        if not isinstance(extra_fields, dict) or OUTCOME not in extra_fields:
            return None
        info = extra_fields["reward_extra_info"]
        return cls(**extra_fields[OUTCOME], metrics=dict(info))

    def fields(self) -> dict[str, Any]:
        """Return `extra_fields` of a row; samplers of verl and of users read `reward_extra_info`."""
        outcome = {"masked": self.masked, "reward": self.reward, "reason": self.reason}
        return {OUTCOME: outcome, "reward_extra_info": dict(self.metrics)}


class RowImages:
    """The images of a row, opaque to serialisers."""

    __slots__ = ("images",)

    def __init__(self, images: tuple[EncodedImage, ...]):
        self.images = images


@dataclass(frozen=True, slots=True)
class SerialisedTrajectory:
    """A trajectory as one of its rows carries it, serialised once."""

    digest: str
    line: TrajectoryLine
    validation: bool

    @classmethod
    def of(cls, trajectory: Trajectory, texts: TextConfig, *, validation: bool) -> SerialisedTrajectory:
        """Serialise a finished trajectory."""
        line = TrajectoryLine.of(trajectory)
        return cls(digest(trajectory, texts, line).to_json(), line, validation)


class DocAgentLoopOutput(AgentLoopOutput):
    """verl's loop output with `(t,)` turns (-1 where not sampled) and rewards of response tokens.

    `trajectory` stands in one of a trajectory's rows: the last in a validation, where verl looks, else the
    first.
    """

    turn_index: list[int] = Field(default_factory=list)
    token_rewards: list[float] = Field(default_factory=list)
    trajectory: Any = Field(default=None, exclude=True)

    def as_dict(self) -> dict[str, Any]:
        """Return fields as tensors of the response's length; `rm_scores` holds the token-level rewards."""
        fields = super().as_dict()
        trajectory: SerialisedTrajectory | None = self.trajectory
        fields[TRAJECTORY_DIGEST], fields[TRAJECTORY_LINE] = "", b""
        if trajectory is not None and trajectory.validation:
            extra = fields["extra_fields"]
            # in a copy: verl gives all rows of a trajectory what the last one has
            info = {TRAJECTORY: whole_line(trajectory.line).decode(), DIGEST: trajectory.digest}
            fields["extra_fields"] = extra | {"reward_extra_info": extra["reward_extra_info"] | info}
        elif trajectory is not None:
            fields[TRAJECTORY_DIGEST], fields[TRAJECTORY_LINE] = trajectory.digest, trajectory.line.text
        fields["turn_index"] = torch.tensor(fields.pop("turn_index"), dtype=torch.int16)
        fields["rm_scores"] = torch.tensor(fields.pop("token_rewards"), dtype=torch.float32)
        return fields


def training_rows(
    ledgers: Sequence[TurnLedger],
    trajectory: Trajectory,
    *,
    log_probs: bool,
    steps: tuple[int, int],
    texts: TextConfig | None = None,
) -> list[DocAgentLoopOutput]:
    """Return the rows of a played trajectory, one a context, without contexts in which nothing was sampled.

    Turns of rows that are left out are renumbered. `log_probs`: the rollout reports them. `steps` are the
    first and last weight version of the sampling; `texts` says what stands for the trajectory in
    comparisons.
    """
    kept = [number for number, ledger in enumerate(ledgers) if ledger.sampled]
    for turn in trajectory.turns:
        turn.row = kept.index(turn.row) if turn.row in kept else -1
    extra = _extra_fields(trajectory, steps)
    rows = [_output(ledgers[n].row(), trajectory, deepcopy(extra), log_probs=log_probs) for n in kept]
    return _with_trajectory(rows, trajectory, texts)


def masked_row(
    prompt_ids: list[int], filler: int, trajectory: Trajectory, *, log_probs: bool, step: int
) -> DocAgentLoopOutput:
    """Return a row that carries nothing into the loss: one filler token outside the mask, reward 0."""
    row = LedgerRow(prompt_ids, [filler], [0], [0.0], [NO_TURN], [0.0], ())
    made = _output(row, trajectory, _extra_fields(trajectory, (step, step)), log_probs=log_probs)
    return _with_trajectory([made], trajectory, None)[0]


def trajectory_json(rows: Sequence[DocAgentLoopOutput]) -> str:
    """Return the trajectory that its rows carry, as one line of JSON."""
    carried = [row.trajectory for row in rows if row.trajectory is not None]
    return whole_line(carried[0].line).decode()


def _with_trajectory(
    rows: list[DocAgentLoopOutput], trajectory: Trajectory, texts: TextConfig | None
) -> list[DocAgentLoopOutput]:
    if not rows:
        return rows
    validation = trajectory.split == VALIDATION
    serialised = SerialisedTrajectory.of(trajectory, texts or TextConfig(), validation=validation)
    rows[-1 if validation else 0].trajectory = serialised
    return rows


def _extra_fields(trajectory: Trajectory, steps: tuple[int, int]) -> dict[str, Any]:
    extra = TrajectoryOutcome.of(trajectory).fields()
    # `_compute_metrics` of verl fails on missing weight versions
    return extra | {"min_global_steps": steps[0], "max_global_steps": steps[1]}


def _output(
    row: LedgerRow, trajectory: Trajectory, extra: dict[str, Any], *, log_probs: bool
) -> DocAgentLoopOutput:
    seconds = [turn.seconds for turn in trajectory.turns]
    return DocAgentLoopOutput(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.response_mask,
        response_logprobs=(row.log_probs or [0.0] * len(row.response_ids)) if log_probs else None,
        multi_modal_data={IMAGES: RowImages(cast("tuple[EncodedImage, ...]", row.images))},
        turn_index=row.turn_index,
        token_rewards=row.rewards,
        reward_score=trajectory.reward,
        num_turns=len(trajectory.turns),
        metrics=AgentLoopMetrics(
            generate_sequences=sum(s.get("generate", 0.0) for s in seconds),
            tool_calls=sum(s.get("step", 0.0) + s.get("encode", 0.0) for s in seconds),
        ),
        extra_fields=extra,
    )
