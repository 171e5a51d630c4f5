"""Sessions said again in the environments of another configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.lab.agents.replay import Comparison, Recorded
from docagent_rl.lab.agents.texts import play_texts
from docagent_rl.records.record import Record
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Repaid:
    """A session before and after.

    Args:
        before: as it is stored.
        after: the same texts, ids and log-probabilities with other rewards.
        went: whether it was shown the same.
    """

    before: Trajectory
    after: Trajectory
    went: Comparison


async def repay(stored: Trajectory, resources: EnvResources) -> Repaid:
    """Say a session again.

    Ids and log-probabilities stay with the turns that are said again. Terms on tokens inside a turn are
    paid with the turn: which tokens they stand on is a tokenizer's to say.

    Raises:
        UserError: the question cannot be played any more.
        InfrastructureError: a service failed.
    """
    recorded = Recorded.of(stored)

    async def write(trajectory: Trajectory) -> AssistantTurn | None:
        said = len(trajectory.turns)
        return recorded.turns[said] if said < len(recorded.turns) else None

    new = Trajectory(
        uid=stored.uid,
        session=stored.session,
        step=stored.step,
        split=stored.split,
        record=stored.record,
        system=resources.system.name,
        prompt_tokens=stored.prompt_tokens,
        response_tokens=stored.response_tokens,
    )
    env = resources.environment(validate=stored.split == "val")
    await play_texts(env, Record.from_dict(stored.record), write, new)
    went = Comparison.of(recorded, Recorded.of(new))
    new.turns = [
        replace(
            turn,
            token_ids=old.token_ids,
            log_probs=old.log_probs,
            trainer_log_probs=old.trainer_log_probs,
            observation_tokens=old.observation_tokens,
            dropped=old.dropped,
            completion_tokens=old.completion_tokens,
            row=old.row,
            seconds=old.seconds,
        )
        for turn, old in zip(new.turns, stored.turns, strict=False)
    ]
    return Repaid(stored, new, went)


async def repay_all(
    sessions: Iterable[Trajectory],
    resources: EnvResources,
    *,
    at_a_time: int,
    done: Callable[[], None] = lambda: None,
) -> list[Repaid]:
    """Say many sessions again; in their order.

    Raises:
        UserError: names the session that cannot be played any more.
        InfrastructureError: a service failed.
    """
    places = asyncio.Semaphore(at_a_time)

    async def one(stored: Trajectory) -> Repaid:
        async with places:
            try:
                found = await repay(stored, resources)
            except UserError as error:
                name = f"session {stored.session} of {stored.question_id!r}, step {stored.step}"
                raise UserError(f"{name}: {error}") from error
        done()
        return found

    tasks = [asyncio.create_task(one(each)) for each in sessions]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
