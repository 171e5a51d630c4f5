"""Trajectories whose turns are supplied as text."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import Recorder, new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe_messages
from docagent_rl.samples.sample import Sample

Write = Callable[[Trajectory], Awaitable[TrajectoryTurn | None]]
"""Takes the trajectory so far and returns the next turn, or `None` if there is none: the trajectory
then ends as if its context were full.
"""
See = Callable[[Observation], Awaitable[None]]
"""Takes what the environment shows: the prompt, then what follows each turn."""


async def play_texts(
    env: DocEnv, sample: Sample, write: Write, trajectory: Trajectory, see: See | None = None
) -> Trajectory:
    """Play one sample with turns from `write`; return the trajectory.

    No tokens are counted, and the context never counts as full, unless `write` does so.

    Raises:
        UserError: the sample cannot be played.
        InfrastructureError: a service failed, or the user's reward function did
            (`RewardFunctionError`).
        NotFiniteError: a reward term of the system is NaN or infinite.
    """
    recorder = Recorder(env, trajectory)
    row = 0
    with recorder.recording():
        prompt = await env.reset(sample)
        trajectory.prompt = describe_messages(prompt)
        if see is not None:
            await see(prompt)
        while True:
            began = time.perf_counter()
            turn = await write(trajectory)
            if turn is None:
                end = EndReason.CONTEXT_FULL
                if trajectory.turns:
                    recorder.reward(await recorder.conclude(end))
                break
            turn.row = row
            turn.seconds["generate"] = time.perf_counter() - began
            trajectory.turns.append(turn)
            result = await recorder.step(AssistantTurn(turn.text, StopCause(turn.stop)))
            recorder.reward(result.terms)
            if result.observation is None:
                end = result.end or EndReason.FINISHED
                break
            row = row + result.observation.fresh
            began = time.perf_counter()
            turn.observation = describe_messages(result.observation)
            if see is not None:
                await see(result.observation)
                turn.seconds["encode"] = time.perf_counter() - began
        recorder.close(end, sample)
        trajectory.reward = sum(turn.reward for turn in trajectory.turns)
        if (terms := await recorder.own_terms(sample)) is not None:
            recorder.reward(terms)
            trajectory.reward = sum(turn.reward for turn in trajectory.turns)
    return trajectory


def whole_turn(text: str, stop: str = StopCause.END_OF_TURN.value) -> TrajectoryTurn:
    """Return a turn without token ids, which by default ended on its own."""
    return TrajectoryTurn(text, stop, [], [])


class EnvPlayer:
    """A `Player` in a configuration's environments; `validate` selects those of an evaluation."""

    def __init__(self, resources: EnvResources, *, validate: bool = True) -> None:
        self.resources = resources
        self.validate = validate

    def identity_of(self, player: str, **facts: Any) -> dict[str, Any]:
        """Return a player's identity: its name and facts, then the environments."""
        environment = environment_identity(self.resources, validate=self.validate)
        return {"player": player, **facts, "environment": environment}

    async def play_turns(
        self, sample: Sample, number: int, write: Write, see: See | None = None
    ) -> Trajectory:
        """Play one trajectory of a sample with turns from `write`."""
        trajectory = new_trajectory(sample, number, self.resources.system.name)
        return await play_texts(self.environment(sample, number), sample, write, trajectory, see)

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one trajectory."""
        return self.resources.environment(validate=self.validate)

    async def close(self) -> None:
        """Do nothing, since no connection is open."""
