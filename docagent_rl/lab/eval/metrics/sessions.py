"""How sessions were played: finish and invalid rates, tokens, images, time and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.eval.metrics.scored import Mean
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn

__all__ = ["Price", "SessionTable", "SessionUse", "Spread", "session_table"]


@dataclass(frozen=True, slots=True)
class SessionUse:
    """What one session took.

    Args:
        played: it could be played; of one that could not only `finished` counts.
        finished: the policy answered.
        turns: assistant turns.
        invalid: turns without an action that could be executed, as the environment counts them.
        sent_tokens: of all requests together: every turn sends its whole context again.
        fresh_tokens: those of them that no request had sent before: prompts and observations.
        output_tokens: sampled.
        image_tokens: visual tokens of what the environment showed after the prompt.
        images: images in prompts and observations, page images and crops alike.
        seconds: wall time of sampling, of the environment and of encoding.
    """

    played: bool
    finished: bool
    turns: int = 0
    invalid: int = 0
    sent_tokens: int = 0
    fresh_tokens: int = 0
    output_tokens: int = 0
    image_tokens: float = 0.0
    images: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, trajectory: Trajectory) -> SessionUse:
        """Of a recorded session."""
        if trajectory.masked:
            return cls(played=False, finished=False)
        turns, metrics = trajectory.turns, trajectory.metrics
        shown = [turn.observation for turn in turns if not turn.dropped]
        invalid = sum(turn.info.get("valid") is False for turn in turns)
        return cls(
            played=True,
            finished=trajectory.status == Status.FINISHED.value,
            turns=len(turns),
            invalid=int(metrics.get("invalid_actions", invalid)),
            sent_tokens=sum(_contexts(trajectory.prompt_tokens, turns)),
            fresh_tokens=trajectory.prompt_tokens + sum(turn.observation_tokens for turn in turns),
            output_tokens=sum(turn.sampled for turn in turns),
            image_tokens=metrics.get("image_tokens", 0.0),
            images=sum(map(_images, (trajectory.prompt, *shown))),
            seconds=math.fsum(second for turn in turns for second in turn.seconds.values()),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is spread over sessions; `None` of nothing."""

    mean: float | None
    median: float | None
    p95: float | None
    worst: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of values; percentiles are interpolated."""
        there = list(values)
        if not there:
            return cls(None, None, None, None)
        median, p95 = np.percentile(there, [50, 95])
        return cls(math.fsum(there) / len(there), float(median), float(p95), max(there))


@dataclass(frozen=True, slots=True)
class SessionTable:
    """Numbers over sessions. Means are over those that were played.

    Args:
        sessions: all of them.
        unplayed: those that could not be played; they are wrong and unfinished.
        finish_rate: share of all sessions that ended with an answer (VRAG-RL, table 3).
        invalid_rate: mean of the sessions' shares of invalid turns (VRAG-RL, table 3).
        invalid_turns: share of all turns that are invalid; long sessions weigh more.
        turns: a session, as are all means below.
        sent_tokens: see `SessionUse`.
        output_tokens: see `SessionUse`.
        image_tokens: see `SessionUse`.
        images: see `SessionUse`.
        seconds: see `SessionUse`.
        cost: a session; `None` without a price.
        total_cost: of all sessions; `None` without a price.
    """

    sessions: int
    unplayed: int
    finish_rate: Mean
    invalid_rate: Mean
    invalid_turns: float | None
    turns: Mean
    sent_tokens: Mean
    output_tokens: Mean
    image_tokens: Mean
    images: Mean
    seconds: Spread
    cost: Mean | None = None
    total_cost: float | None = None


def session_table(uses: Iterable[SessionUse], price: Price | None = None) -> SessionTable:
    """Rates, tokens, images, time and cost over sessions."""
    everything = list(uses)
    played = [use for use in everything if use.played]
    turns = sum(use.turns for use in played)
    costs = (
        []
        if price is None
        else [price.cost(use.sent_tokens, use.output_tokens, use.fresh_tokens) for use in played]
    )
    return SessionTable(
        sessions=len(everything),
        unplayed=len(everything) - len(played),
        finish_rate=Mean.of(float(use.finished) for use in everything),
        invalid_rate=Mean.of(use.invalid / use.turns if use.turns else None for use in played),
        invalid_turns=sum(use.invalid for use in played) / turns if turns else None,
        turns=Mean.of(use.turns for use in played),
        sent_tokens=Mean.of(use.sent_tokens for use in played),
        output_tokens=Mean.of(use.output_tokens for use in played),
        image_tokens=Mean.of(use.image_tokens for use in played),
        images=Mean.of(use.images for use in played),
        seconds=Spread.of(use.seconds for use in played),
        cost=None if price is None else Mean.of(costs),
        total_cost=None if price is None else math.fsum(costs),
    )


def _contexts(prompt_tokens: int, turns: Sequence[TrajectoryTurn]) -> Iterable[int]:
    """Length of the context that each turn was sampled from."""
    context, before = prompt_tokens, None
    for turn in turns:
        if before is not None:
            said = before.sampled - before.reasoning_tokens
            kept = context + said if turn.row == before.row else 0
            context = kept + before.observation_tokens
        yield context
        before = turn


def _images(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum("image" in part for message in messages for part in message.get("parts", ()))
