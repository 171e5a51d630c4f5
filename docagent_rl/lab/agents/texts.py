"""Trajectories whose turns are given as texts, and the player that repeats recorded ones."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, Observation
from docagent_rl.lab.agents.run_folder import trajectories_of
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import Recorder, new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, describe
from docagent_rl.samples.sample import Sample

Write = Callable[[Trajectory], Awaitable[TrajectoryTurn | None]]
"""From the trajectory so far to the next turn; `None`: there is no more, and the trajectory ends as if its
context were full.
"""
See = Callable[[Observation], Awaitable[None]]
"""Takes what the environment shows: the prompt, then what follows each turn."""


async def play_texts(
    env: DocEnv, sample: Sample, write: Write, trajectory: Trajectory, see: See | None = None
) -> Trajectory:
    """Play one question with turns that are given; return the trajectory.

    Nothing is counted in tokens, and no context is ever full, unless `write` does so.

    Raises:
        UserError: the sample cannot be played.
        InfrastructureError: a service failed.
    """
    recorder, row = Recorder(env, trajectory), 0
    with recorder.recording():
        prompt = await env.reset(sample)
        trajectory.prompt = describe(prompt)
        if see is not None:
            await see(prompt)
        while True:
            began = time.perf_counter()
            turn = await write(trajectory)
            if turn is None:
                end = EndReason.CONTEXT_FULL
                if trajectory.turns:
                    recorder.reward(await env.conclude(end))
                break
            turn.row, turn.seconds["generate"] = row, time.perf_counter() - began
            trajectory.turns.append(turn)
            result = await recorder.step(AssistantTurn(turn.text, StopCause(turn.stop)))
            recorder.reward(result.terms)
            if result.observation is None:
                end = result.end or EndReason.FINISHED
                break
            row, began = row + result.observation.fresh, time.perf_counter()
            turn.observation = describe(result.observation)
            if see is not None:
                await see(result.observation)
                turn.seconds["encode"] = time.perf_counter() - began
        recorder.close(end, sample)
    trajectory.reward = sum(turn.reward for turn in trajectory.turns)
    return trajectory


def whole_turn(text: str, stop: str = StopCause.END_OF_TURN.value) -> TrajectoryTurn:
    """Return a turn without token ids, which by default ended by itself."""
    return TrajectoryTurn(text, stop, [], [])


class EnvPlayer:
    """A `Player` in the environments of a configuration; with `validate`, in those of an evaluation."""

    def __init__(self, resources: EnvResources, *, validate: bool = True) -> None:
        self.resources, self.validate = resources, validate

    def identified(self, player: str, **facts: Any) -> dict[str, Any]:
        """Return the identity of a player by name, with the environments last."""
        environment = environment_identity(self.resources, validate=self.validate)
        return {"player": player, **facts, "environment": environment}

    async def played(self, sample: Sample, number: int, write: Write, see: See | None = None) -> Trajectory:
        """Play one trajectory of a question with turns that are given."""
        trajectory = new_trajectory(sample, number, self.resources.system.name)
        return await play_texts(self.environment(sample, number), sample, write, trajectory, see)

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one trajectory."""
        return self.resources.environment(validate=self.validate)

    async def close(self) -> None:
        """Do nothing: no connection is open."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Turns of a trajectory, with digests of the prompt and of the observation after each turn.

    The digest of an observation that was dropped, or that never came, is empty.
    """

    turns: tuple[tuple[str, str], ...]
    """Text of each, and why it ended."""
    observations: tuple[str, ...]
    reward: float
    end: str

    @classmethod
    def of(cls, trajectory: Trajectory) -> Recorded:
        """Make it of a written trajectory."""
        turns = tuple((turn.text, turn.stop) for turn in trajectory.turns)
        messages = [trajectory.prompt, *(t.observation if not t.dropped else [] for t in trajectory.turns)]
        digests = (
            hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest() if each else ""
            for each in messages
        )
        return cls(turns, tuple(digests), trajectory.reward, trajectory.end)

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn | None:
        """Return the turn that follows those of a trajectory; `None` behind the last."""
        place = len(trajectory.turns)
        return whole_turn(*self.turns[place]) if place < len(self.turns) else None

    def same_as(self, other: Recorded) -> bool:
        """Return whether everything was shown again, and the trajectory ended alike."""
        return self.observations == other.observations and self.end == other.end

    def replay_metrics(self, new: Recorded) -> dict[str, float]:
        """Return the metrics of a trajectory that repeats this one (`ReplayPlayer`)."""
        pairs = list(zip(self.observations, new.observations, strict=False))
        differs = next((n for n, (before, after) in enumerate(pairs) if before != after), len(pairs))
        return {
            "replay/same": float(self.same_as(new)),
            # the prompt is no turn; the turn that led to the difference is none that is alike
            "replay/alike_turns": max(0, differs - 1),
            "replay/unsaid_turns": len(self.turns) - len(new.turns),
            "replay/reward_change": new.reward - self.reward,
        }


class ReplayPlayer(EnvPlayer):
    """A `Player` that repeats trajectories, to see what another variant, reward or retriever makes of them.

    The metrics of a trajectory say where it departs from the written one: `replay/same` (1: shown and ended
    alike), `replay/alike_turns` (turns until something else was shown), `replay/unsaid_turns`,
    `replay/reward_change`. What was recorded for pages that are not shown any more is said all the same. A
    record that ends before the environment does ends the trajectory as `context_full`.

    `source` is a run's folder, or a file of trajectories; with `validate` environments are those of an
    evaluation.

    Raises:
        UserError: the source cannot be read, or holds no trajectory that was played.
    """

    def __init__(self, resources: EnvResources, source: Path, *, validate: bool = True) -> None:
        super().__init__(resources, validate=validate)
        found: dict[str, list[tuple[int, Recorded]]] = {}
        for each in trajectories_of(source):
            if not each.masked and each.question_id is not None:
                found.setdefault(each.question_id, []).append((each.number, Recorded.of(each)))
        if not found:
            raise UserError(f"{source} holds no trajectory that was played")
        digest = hashlib.sha256()
        self._trajectories: dict[str, Sequence[Recorded]] = {}
        for question, numbered in sorted(found.items()):
            recorded = [each for _, each in sorted(numbered, key=lambda pair: pair[0])]
            self._trajectories[question] = recorded
            texts = [each.turns for each in recorded]
            digest.update(json.dumps([question, texts]).encode())
        self._digest = digest.hexdigest()

    @property
    def identity(self) -> Mapping[str, Any]:
        """Texts, wherever they lie, and environments."""
        return self.identified("replay", texts=self._digest)

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question.

        Raises:
            UserError: that trajectory was not recorded.
        """
        known = self._trajectories.get(sample.question_id, ())
        if number >= len(known):
            raise UserError(
                f"question {sample.question_id!r}: {len(known)} trajectories are recorded, "
                f"number {number} is not"
            )
        old = known[number]
        new = await self.played(sample, number, old.write)
        new.metrics |= old.replay_metrics(Recorded.of(new))
        return new
