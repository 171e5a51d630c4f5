"""A player that says again what a recorded trajectory said, in the present environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.errors import UserError
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.texts import play_texts
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a trajectory said, and what it was shown.

    Args:
        turns: texts, and why sampling ended.
        shown: a digest of the prompt, then of what followed each turn; empty where nothing did.
        reward: of the trajectory.
        end: what ended it.
    """

    turns: tuple[AssistantTurn, ...]
    shown: tuple[str, ...]
    reward: float
    end: str

    @classmethod
    def of(cls, trajectory: Trajectory) -> Recorded:
        """Of a written trajectory."""
        turns = tuple(AssistantTurn(turn.text, StopCause(turn.stop)) for turn in trajectory.turns)
        return cls(turns, _shown(trajectory), trajectory.reward, trajectory.end)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a trajectory went the second time.

    Args:
        alike: turns, from the first, that were shown the same before and after.
        unsaid: recorded turns for which there was no place any more.
        same: everything was shown again, and the trajectory ended alike.
        reward: the new one less the old.
    """

    alike: int
    unsaid: int
    same: bool
    reward: float

    @classmethod
    def of(cls, old: Recorded, new: Recorded) -> Comparison:
        """Of a written trajectory and the one that repeats it."""
        pairs = list(zip(old.shown, new.shown, strict=False))
        differs = next((n for n, (before, after) in enumerate(pairs) if before != after), len(pairs))
        same = old.shown == new.shown and old.end == new.end
        # the prompt is no turn; the turn that led to the difference is none that is alike
        return cls(max(0, differs - 1), len(old.turns) - len(new.turns), same, new.reward - old.reward)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the new trajectory."""
        return {
            "replay/same": float(self.same),
            "replay/alike_turns": float(self.alike),
            "replay/unsaid_turns": float(self.unsaid),
            "replay/reward_change": self.reward,
        }


class ReplayPlayer:
    """A `Player` that repeats trajectories, to see what another variant, reward or retriever makes of them.

    The metrics of a trajectory say where it departs from the written one: `replay/same` (1: shown and ended
    alike), `replay/alike_turns` (turns until something else was shown), `replay/unsaid_turns`,
    `replay/reward_change`. What was recorded for pages that are not shown any more is said all the same. A
    record that ends before the environment does ends the trajectory as `context_full`.

    Args:
        resources: what the environments share.
        source: a run's folder, or a file of trajectories.
        validate: environments are those of an evaluation.

    Raises:
        UserError: the source cannot be read, or holds no trajectory that was played.
    """

    def __init__(self, resources: EnvResources, source: Path, *, validate: bool = True) -> None:
        self._resources = resources
        self._validate = validate
        self._trajectories, digest = _read(trajectories_of(source))
        self._source = digest
        if not self._trajectories:
            raise UserError(f"{source} holds no trajectory that was played")

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Player`: what was said, wherever it lies."""
        environment = environment_identity(self._resources, validate=self._validate)
        return {"player": "replay", "texts": self._source, "environment": environment}

    @property
    def trajectories(self) -> int:
        """Trajectories of the question that has most."""
        return max(map(len, self._trajectories.values()))

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """See `Player`.

        Raises:
            UserError: that trajectory was not recorded.
        """
        known: Sequence[Recorded] = self._trajectories.get(sample.question_id, ())
        if number >= len(known):
            raise UserError(
                f"question {sample.question_id!r}: {len(known)} trajectories are recorded, "
                f"number {number} is not"
            )
        old = known[number]

        async def write(trajectory: Trajectory) -> AssistantTurn | None:
            said = len(trajectory.turns)
            return old.turns[said] if said < len(old.turns) else None

        env = self._resources.environment(validate=self._validate)
        new = new_trajectory(sample, number, self._resources.system.name)
        await play_texts(env, sample, write, new)
        new.metrics |= Comparison.of(old, Recorded.of(new)).metrics()
        return new

    async def close(self) -> None:
        """See `Player`: there is nothing to let go of."""


def trajectories_of(source: Path) -> Iterable[Trajectory]:
    """The trajectories of a run's folder, or of a file of trajectories.

    Raises:
        UserError: there are none, or they cannot be read.
    """
    if source.is_dir():
        folder = RunFolder(source)
        folder.manifest()
        return folder.trajectories()
    return read_trajectories(source)


def _read(trajectories: Iterable[Trajectory]) -> tuple[dict[str, list[Recorded]], str]:
    found: dict[str, list[tuple[int, Recorded]]] = {}
    for trajectory in trajectories:
        if trajectory.masked or trajectory.question_id is None:
            continue
        found.setdefault(trajectory.question_id, []).append((trajectory.number, Recorded.of(trajectory)))
    digest = hashlib.sha256()
    ordered: dict[str, list[Recorded]] = {}
    for question, recorded in sorted(found.items()):
        ordered[question] = [each for _, each in sorted(recorded, key=lambda pair: pair[0])]
        said = [[[turn.text, turn.stop.value] for turn in each.turns] for each in ordered[question]]
        digest.update(json.dumps([question, said]).encode())
    return ordered, digest.hexdigest()


def _shown(trajectory: Trajectory) -> tuple[str, ...]:
    observations = [turn.observation if not turn.dropped else [] for turn in trajectory.turns]
    return tuple(_digest(messages) for messages in (trajectory.prompt, *observations))


def _digest(messages: Any) -> str:
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest() if messages else ""
