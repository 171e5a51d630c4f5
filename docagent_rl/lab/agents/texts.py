"""Trajectories whose turns are texts that somebody writes: a script, chance, a written trajectory."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from docagent_rl.actions.base import StopCause
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason
from docagent_rl.rollout.recorder import Recorder
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe
from docagent_rl.samples.sample import Sample

Write = Callable[[Trajectory], Awaitable[AssistantTurn | None]]
"""From the trajectory so far to the next turn; `None`: there is no more, and the trajectory ends as if its
context were full.
"""


async def play_texts(env: DocEnv, sample: Sample, write: Write, trajectory: Trajectory) -> Trajectory:
    """Play one question with turns that are given; the trajectory.

    Nothing is counted in tokens, and no context is ever full.

    Raises:
        UserError: the sample cannot be played.
        InfrastructureError: a service failed.
    """
    recorder, row = Recorder(env, trajectory), 0
    with recorder.recording():
        trajectory.prompt = describe(await env.reset(sample))
        while True:
            began = time.perf_counter()
            turn = await write(trajectory)
            if turn is None:
                end = EndReason.CONTEXT_FULL
                if trajectory.turns:
                    recorder.reward(await env.conclude(end))
                break
            trajectory.turns.append(TrajectoryTurn(turn.text, turn.stop.value, [], [], row=row))
            trajectory.turns[-1].seconds["generate"] = time.perf_counter() - began
            result = await recorder.step(turn)
            recorder.reward(result.terms)
            if result.observation is None:
                end = result.end or EndReason.FINISHED
                break
            trajectory.turns[-1].observation = describe(result.observation)
            row += result.observation.fresh
        recorder.close(end, sample)
    trajectory.reward = sum(turn.reward for turn in trajectory.turns)
    return trajectory


def said(text: str) -> AssistantTurn:
    """A turn that ended by itself."""
    return AssistantTurn(text, StopCause.END_OF_TURN)
