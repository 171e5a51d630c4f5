"""An environment that somebody listens to while it is played."""

from __future__ import annotations

from collections.abc import Callable

from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    EpisodeState,
    Observation,
    RewardTerms,
    StepResult,
)
from docagent_rl.records.record import Record

Heard = Callable[[AssistantTurn, StepResult], None]
"""Told of every turn when it was carried out."""


class HeardEnv(DocEnv[EpisodeState]):
    """Another environment, and a listener.

    Args:
        env: is played.
        heard: is told.
    """

    def __init__(self, env: DocEnv, heard: Heard) -> None:
        self._env, self._heard = env, heard

    async def reset(self, sample: Record) -> Observation:
        """See `DocEnv.reset`."""
        return await self._env.reset(sample)

    def show_prompt(self, episode: EpisodeState) -> Observation:
        """See `DocEnv.show_prompt`."""
        return self._env.show_prompt(episode)

    async def step(self, turn: AssistantTurn) -> StepResult:
        """See `DocEnv.step`."""
        result = await self._env.step(turn)
        self._heard(turn, result)
        return result

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """See `DocEnv.conclude`."""
        return await self._env.conclude(reason)

    def metrics(self) -> dict[str, float]:
        """See `DocEnv.metrics`."""
        return self._env.metrics()

    def trajectory_text(self) -> str | None:
        """See `DocEnv.trajectory_text`."""
        return self._env.trajectory_text()
