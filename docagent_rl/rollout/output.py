"""What an agent loop hands to verl: one training row with its turns and token-level rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import NO_TURN, LedgerRow, TurnLedger
from docagent_rl.rollout.trajectory import Trajectory

IMAGES = "docagent_images"
TRAJECTORY = "docagent_trajectory"


class RowImages:
    """The images of a row, opaque to serialisers."""

    __slots__ = ("images",)

    def __init__(self, images: tuple[EncodedImage, ...]):
        self.images = images


class DocAgentLoopOutput(AgentLoopOutput):
    """verl's loop output with per-token fields.

    Args:
        turn_index: `(t,)` turn of each response token, -1 where it was not sampled.
        token_rewards: `(t,)` reward of each response token.
    """

    turn_index: list[int] = Field(default_factory=list)
    token_rewards: list[float] = Field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Fields as tensors of the response's length; `rm_scores` holds the token-level rewards."""
        fields = super().as_dict()
        fields["turn_index"] = torch.tensor(fields.pop("turn_index"), dtype=torch.int64)
        fields["rm_scores"] = torch.tensor(fields.pop("token_rewards"), dtype=torch.float32)
        return fields


def training_rows(
    ledgers: Sequence[TurnLedger],
    trajectory: Trajectory,
    *,
    log_probs: bool,
    steps: tuple[int, int],
) -> list[DocAgentLoopOutput]:
    """The rows of a played session, one a context, without contexts in which nothing was sampled.

    Args:
        ledgers: the session's ledgers.
        trajectory: its record; turns of rows that are left out are renumbered.
        log_probs: the rollout is configured to report log-probs.
        steps: first and last weight version the session was sampled with.
    """
    kept = [number for number, ledger in enumerate(ledgers) if ledger.sampled]
    for turn in trajectory.turns:
        turn.row = kept.index(turn.row) if turn.row in kept else -1
    rows = [ledgers[number].row() for number in kept]
    return [_output(row, trajectory, log_probs=log_probs, steps=steps) for row in rows]


def masked_row(
    prompt_ids: list[int], filler: int, trajectory: Trajectory, *, log_probs: bool, step: int
) -> DocAgentLoopOutput:
    """A row that carries nothing into the loss: one filler token outside the mask, reward 0."""
    row = LedgerRow(prompt_ids, [filler], [0], [0.0], [NO_TURN], [0.0], ())
    return _output(row, trajectory, log_probs=log_probs, steps=(step, step))


def _output(
    row: LedgerRow,
    trajectory: Trajectory,
    *,
    log_probs: bool,
    steps: tuple[int, int],
) -> DocAgentLoopOutput:
    first, last = steps
    seconds = [turn.seconds for turn in trajectory.turns]
    # `_compute_metrics` of verl fails on missing weight versions
    extra = {
        "min_global_steps": first,
        "max_global_steps": last,
        "reward_extra_info": {TRAJECTORY: trajectory.to_json()},
    }
    return DocAgentLoopOutput(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.response_mask,
        response_logprobs=(row.log_probs or [0.0] * len(row.response_ids)) if log_probs else None,
        multi_modal_data={IMAGES: RowImages(row.images)},
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
