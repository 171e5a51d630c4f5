"""The training rows that an agent loop returns to verl, with their turns and token-level
rewards.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from pydantic import Field, PrivateAttr
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from docagent_rl.config import TextConfig
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import NO_TURN, LedgerRow, TurnLedger
from docagent_rl.rollout.trajectory import Trajectory, line_of, whole_line

IMAGES = "docagent_images"
VALIDATION = "val"
"""`Trajectory.split` of validation trajectories."""
TRAJECTORY = "docagent_trajectory"
DIGEST = "docagent_digest"
"""Keys in `reward_extra_info` of validation trajectories, which verl collects from the last row of
each.
"""
TRAJECTORY_LINE = "docagent_trajectory_line"
TRAJECTORY_DIGEST = "docagent_trajectory_digest"
"""Fields of the first row of a training trajectory; they are empty in its other rows."""
OURS = "docagent"
"""Key in `extra_fields` that marks rows of this package's agent loop."""


_LISTS = ("prompt_ids", "response_ids", "response_mask", "turn_index", "token_rewards")
"""Fields of a row with one number a token."""


class RowImages:
    """The images of a row, wrapped so that serialisers do not look into them."""

    __slots__ = ("images",)

    def __init__(self, images: tuple[EncodedImage, ...]):
        self.images = images


class DocAgentLoopOutput(AgentLoopOutput):
    """verl's loop output, with (t,) turns (-1 where not sampled) and rewards of response tokens.

    One row of a trajectory carries its `digest` and `line` (`line_of`), the others are empty. It is
    the first row, or in a validation the last one, which is the one verl reads.
    """

    turn_index: list[int] = Field(default_factory=list)
    token_rewards: list[float] = Field(default_factory=list)
    validation: bool = Field(default=False, exclude=True)
    digest: str = Field(default="", exclude=True)
    line: bytes = Field(default=b"", exclude=True)
    _inputs: dict[str, Any] | None = PrivateAttr(default=None)
    _tensors: dict[str, torch.Tensor] | None = PrivateAttr(default=None)

    @property
    def inputs(self) -> dict[str, Any] | None:
        """The multi-modal inputs of a finished row."""
        return self._inputs

    def finish(self, inputs: dict[str, Any] | None = None) -> None:
        """Convert what has one number a token to tensors, so that `as_dict` takes no time.

        Tokens, rewards and log-probs must not change afterwards. `inputs` are the row's multi-modal
        inputs, which are computed at the same time.
        """
        self._inputs = inputs
        found = {
            "prompts": torch.tensor(self.prompt_ids, dtype=torch.int64),
            "responses": torch.tensor(self.response_ids, dtype=torch.int64),
            "response_mask": torch.tensor(self.response_mask, dtype=torch.int64),
            "turn_index": torch.tensor(self.turn_index, dtype=torch.int16),
            "rm_scores": torch.tensor(self.token_rewards, dtype=torch.float32),
        }
        if self.response_logprobs is not None:
            log_probs = torch.tensor(self.response_logprobs, dtype=torch.float32)
            found["rollout_log_probs"] = log_probs
        self._tensors = found

    def as_dict(self) -> dict[str, Any]:
        """Return fields as tensors of the response's length; `rm_scores` are token-level
        rewards.
        """
        if self._tensors is None:
            self.finish()
        # verl converts the lists again, which takes tens of milliseconds
        bare: dict[str, Any] = {name: [] for name in _LISTS}
        bare |= {"response_logprobs": None, "reward_score": None}
        fields = AgentLoopOutput.as_dict(self.model_copy(update=bare))
        for name in ("turn_index", "token_rewards"):
            fields.pop(name, None)
        fields |= cast("dict[str, torch.Tensor]", self._tensors)
        fields[TRAJECTORY_DIGEST] = ""
        fields[TRAJECTORY_LINE] = b""
        if not self.validation:
            fields[TRAJECTORY_DIGEST] = self.digest
            fields[TRAJECTORY_LINE] = self.line
        elif self.line:
            extra = fields["extra_fields"]
            # in a copy, as verl shares the last row's fields with all rows of a trajectory
            info = {TRAJECTORY: whole_line(self.line).decode(), DIGEST: self.digest}
            fields["extra_fields"] = extra | {
                "reward_extra_info": extra["reward_extra_info"] | info
            }
        return fields


def training_rows(
    ledgers: Sequence[TurnLedger],
    trajectory: Trajectory,
    *,
    log_probs: bool,
    steps: tuple[int, int],
    texts: TextConfig | None = None,
) -> list[DocAgentLoopOutput]:
    """Return the rows of a played trajectory: one per context, except those without sampled tokens.

    The row numbers in the trajectory's turns are updated accordingly. `log_probs` says whether the
    rollout reports log-probs. `steps` are the first and the last weight version used for sampling;
    `texts` selects the text that represents the trajectory in comparisons.
    """
    kept = [number for number, ledger in enumerate(ledgers) if ledger.sampled]
    for turn in trajectory.turns:
        turn.row = kept.index(turn.row) if turn.row in kept else -1
    rows = [ledgers[number].row() for number in kept]
    return _outputs(rows, trajectory, log_probs=log_probs, steps=steps, texts=texts)


def masked_row(
    prompt_ids: list[int], filler: int, trajectory: Trajectory, *, log_probs: bool, step: int
) -> DocAgentLoopOutput:
    """Return a row without effect on the loss: one filler token outside the mask, with reward 0."""
    row = LedgerRow(prompt_ids, [filler], [0], [0.0], [NO_TURN], [0.0], ())
    return _outputs([row], trajectory, log_probs=log_probs, steps=(step, step))[0]


def _outputs(
    rows: Sequence[LedgerRow],
    trajectory: Trajectory,
    *,
    log_probs: bool,
    steps: tuple[int, int],
    texts: TextConfig | None = None,
) -> list[DocAgentLoopOutput]:
    seconds = [turn.seconds for turn in trajectory.turns]
    generated = sum(each.get("generate", 0.0) for each in seconds)
    called = sum(each.get("step", 0.0) + each.get("encode", 0.0) for each in seconds)
    validation = trajectory.split == VALIDATION
    made = [
        DocAgentLoopOutput(
            prompt_ids=row.prompt_ids,
            response_ids=row.response_ids,
            response_mask=row.response_mask,
            response_logprobs=(row.log_probs or [0.0] * len(row.response_ids))
            if log_probs
            else None,
            multi_modal_data={IMAGES: RowImages(cast("tuple[EncodedImage, ...]", row.images))},
            turn_index=row.turn_index,
            token_rewards=row.rewards,
            validation=validation,
            reward_score=trajectory.reward,
            num_turns=len(trajectory.turns),
            metrics=AgentLoopMetrics(generate_sequences=generated, tool_calls=called),
            extra_fields={
                OURS: True,
                # for verl's and users' samplers
                "reward_extra_info": {} if trajectory.masked else dict(trajectory.metrics),
                # verl's `_compute_metrics` fails if weight versions are missing
                "min_global_steps": steps[0],
                "max_global_steps": steps[1],
            },
        )
        for row in rows
    ]
    if made:
        carrier = made[-1 if validation else 0]
        carrier.digest = TrajectoryDigest.of(trajectory, texts).to_json()
        carrier.line = line_of(trajectory)
    return made
