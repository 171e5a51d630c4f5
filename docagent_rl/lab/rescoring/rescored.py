"""Trajectories repeated word for word in the environments of another configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.lab.agents.texts import Recorded, play_texts
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

_KEPT = (
    "token_ids", "log_probs", "trainer_log_probs", "observation_tokens", "dropped", "completion_tokens",
    "row", "seconds",
)  # fmt: skip
"""Fields of a turn that stay as they are stored."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """A trajectory before and after: the same texts, ids and log-probabilities with other rewards.

    Args:
        before: as it is stored.
        after: as it is rewarded now.
        same: it was shown the same and ended alike.
    """

    before: Trajectory
    after: Trajectory
    same: bool


async def rescore(stored: Trajectory, resources: EnvResources) -> Rescored:
    """Repeat a trajectory.

    Terms on tokens inside a turn are given with the turn: which tokens they stand on is a tokenizer's to say.

    Raises:
        UserError: the question cannot be played any more.
        InfrastructureError: a service failed.
    """
    recorded = Recorded.of(stored)

    async def write(trajectory: Trajectory) -> AssistantTurn | None:
        place = len(trajectory.turns)
        return recorded.turns[place] if place < len(recorded.turns) else None

    new = Trajectory(
        uid=stored.uid,
        number=stored.number,
        step=stored.step,
        split=stored.split,
        sample=stored.sample,
        system=resources.system.name,
        prompt_tokens=stored.prompt_tokens,
        response_tokens=stored.response_tokens,
    )
    env = resources.environment(validate=stored.split == "val")
    await play_texts(env, Sample.from_dict(stored.sample), write, new)
    same = recorded.same_as(Recorded.of(new))
    new.turns = [
        replace(turn, **{name: getattr(old, name) for name in _KEPT})
        for turn, old in zip(new.turns, stored.turns, strict=False)
    ]
    return Rescored(stored, new, same)


async def rescore_all(
    trajectories: Iterable[Trajectory],
    resources: EnvResources,
    *,
    at_a_time: int,
    done: Callable[[], None] = lambda: None,
) -> list[Rescored]:
    """Repeat many trajectories; they come back in their order.

    Raises:
        UserError: names the trajectory that cannot be played any more.
        InfrastructureError: a service failed.
    """
    places = asyncio.Semaphore(at_a_time)

    async def one(stored: Trajectory) -> Rescored:
        async with places:
            try:
                found = await rescore(stored, resources)
            except UserError as error:
                name = f"trajectory {stored.number} of {stored.question_id!r}, step {stored.step}"
                raise UserError(f"{name}: {error}") from error
        done()
        return found

    tasks = [asyncio.create_task(one(each)) for each in trajectories]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
