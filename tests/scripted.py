"""Trajectories of a system's script, recorded as a run records them."""

import asyncio
import random
from collections.abc import Sequence

from docagent_rl.lab.agents.random_turns import QuestionStatistics, RandomContext, random_turn
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.rollout import Limits
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from trial import ScriptedTrajectory, play_scripted


def play_all(
    resources: TrajectoryResources, limits: Limits, samples: Sequence[Sample], seed: int = 0
) -> list[ScriptedTrajectory]:
    """Play each question with the script of the system."""
    return asyncio.run(_play(resources, limits, samples, random.Random(seed)))


async def _play(
    resources: TrajectoryResources, limits: Limits, chosen: Sequence[Sample], rng: random.Random
) -> list[ScriptedTrajectory]:
    system, config = resources.system, resources.env_config
    script, statistics = system.script(config), QuestionStatistics.of(chosen)
    return [
        await play_scripted(
            sample,
            Lines(
                script,
                RandomContext(
                    sample,
                    system.max_turns(config),
                    rng,
                    resources.services.store.document(sample.doc_id).num_pages,
                    statistics,
                ),
            ),
            env=resources.environment(validate=False),
            system=system.name,
            codec=resources.codec,
            encoder=resources.encoder,
            limits=limits,
            number=number,
        )
        for number, sample in enumerate(chosen)
    ]


class Lines:
    """A script in the form that `play_scripted` takes."""

    def __init__(self, script, context: RandomContext) -> None:
        self.script, self.context = script, context

    def __call__(self, trajectory: Trajectory) -> str:
        if trajectory.turns:
            self.context.turn = len(trajectory.turns) + 1
            self.context.record = trajectory.turns[-1].record
        return random_turn(self.script, self.context).text
