"""The agent loop of a rehearsal: a rollout server samples every turn, and a script's text is kept.

A run imports this module (`docagent.modules`), which takes the place of the agent loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from docagent_rl.lab.rehearsal.filling import FillingPolicy
from docagent_rl.lab.rehearsal.settings import JUDGE_VARIABLE, SAMPLED_VARIABLE
from docagent_rl.rewards.judge import Judge
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Generate, Sampled
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from docagent_rl.training.agent_loop.loop import DocAgentLoop
from docagent_rl.training.registrations import replace_agent_loop
from docagent_rl.training.serving.trajectory_client import TrajectoryClient


class RehearsalLoop(DocAgentLoop):
    """An agent loop whose turns are as long as a recipe allows, whatever the model samples.

    The server samples the first tokens of each turn. It reads the script's turn with the next
    prompt: on a CPU, sampling takes a thousand times as long as reading.
    """

    _discards_samples: ClassVar[bool] = True

    def _sampler(
        self,
        resources: TrajectoryResources,
        sample: Sample,
        trajectory: Trajectory,
        client: TrajectoryClient,
    ) -> Generate:
        pace_judge(resources)
        ask = super()._sampler(resources, sample, trajectory, client)
        context = int(self.rollout_config.max_model_len)
        seed = f"{sample.question_id} {trajectory.number}"
        policy = FillingPolicy(resources, sample, context, seed)
        most = int(os.environ[SAMPLED_VARIABLE])

        async def generate(ids: list[int], images: list[EncodedImage], max_tokens: int) -> Sampled:
            written = policy.turn(trajectory, len(ids), max_tokens)
            sampled = await ask(ids, images, min(len(written), most))
            # those of the script's tokens are unknown, which no number of a rehearsal depends on
            log_probs = [*sampled.log_probs, *[0.0] * len(written)][: len(written)]
            return Sampled(written, log_probs)

        return generate

    def _limits(self, max_tokens: int) -> dict[str, Any]:
        return {"max_tokens": max_tokens, "min_tokens": max_tokens, "ignore_eos": True}


@dataclass(frozen=True, slots=True)
class PacedJudge:
    """A judge that takes its time before it asks another one."""

    judge_asked: Judge
    seconds: float

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge.judge`."""
        await asyncio.sleep(self.seconds)
        return await self.judge_asked.judge(question, references, prediction)

    async def check(self) -> None:
        """See `Judge.check`."""
        await self.judge_asked.check()


def pace_judge(resources: TrajectoryResources) -> None:
    """Make the judge as slow as the rehearsal's settings say, once."""
    seconds = float(os.environ.get(JUDGE_VARIABLE, "0"))
    services = resources.services
    if seconds and not isinstance(services.judge, PacedJudge):
        resources.services = replace(services, judge=PacedJudge(services.judge, seconds))


replace_agent_loop(f"{__name__}.{RehearsalLoop.__qualname__}")
