"""The protocol of whoever plays a trajectory, and the recorder of what becomes of it beside its
tokens.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason, RewardTerms, StepResult
from docagent_rl.envs.search_log import SearchNote, noting, search_metrics
from docagent_rl.envs.turn_record import WRITTEN
from docagent_rl.rewards.finite import is_finite
from docagent_rl.rollout.own_reward import reward_call
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.samples.sample import Sample

_listener: ContextVar[Callable[[Trajectory], None] | None] = ContextVar(
    "docagent_listener", default=None
)


class Player(Protocol):
    """A player of questions in real environments, many at a time in one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return what its trajectories depend on: model, prompt, environment, sampling, seed; no
        secrets.

        A run goes on only with a player of the same identity.
        """
        ...

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one question to its end.

        `number` counts the trajectories of the question from 0; the same number gives the same
        trajectory wherever the model is deterministic.

        Raises:
            UserError: the question cannot be played.
            InfrastructureError: a service failed after its own retries.
        """
        ...

    async def close(self) -> None:
        """Let go of servers and processes; may be called twice."""
        ...


def new_trajectory(sample: Sample, number: int, system: str) -> Trajectory:
    """Begin a trajectory outside training."""
    return Trajectory(
        uid=sample.question_id,
        number=number,
        step=0,
        split="val",
        sample=sample.to_dict(),
        system=system,
    )


@contextmanager
def listening(listener: Callable[[Trajectory], None]) -> Generator[None]:
    """Hand every trajectory that is played meanwhile to a listener after each of its turns."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class NotFiniteError(ValueError):
    """A reward term or another number of an environment is NaN or infinite, which is a bug of its
    system.
    """


@dataclass(slots=True)
class Recorder:
    """Steps an environment and notes in a trajectory what it made of each turn (the player adds
    turns).
    """

    env: DocEnv
    trajectory: Trajectory
    notes: list[SearchNote] = field(default_factory=list)
    """Searches of the turn that runs."""
    searches: list[list[SearchNote]] = field(default_factory=list)
    """Those of each turn."""

    @contextmanager
    def recording(self) -> Generator[None]:
        """Note the searches that are made meanwhile."""
        with noting() as self.notes:
            yield

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute a turn, the last one of the trajectory; its terms are those that count
        (`counted`).

        Raises:
            NotFiniteError: see `counted`.
        """
        played = self.trajectory.turns[-1]
        began = time.perf_counter()
        result = await self.env.step(turn)
        played.seconds["step"] = time.perf_counter() - began
        played.info = result.record.to_dict()
        self.searches.append(self.notes[:])
        played.searches = [note.to_dict() for note in self.notes]
        self.notes.clear()
        if (listener := _listener.get()) is not None:
            listener(self.trajectory)
        return replace(result, terms=self.counted(result.terms))

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the player has to end (`DocEnv.conclude`); raises as `step`
        does.
        """
        return self.counted(await self.env.conclude(reason))

    def counted(self, terms: RewardTerms) -> RewardTerms:
        """Return the terms of the environment as they count in the reward of the last turn.

        Where a function of the user's own replaces the reward, they keep their values and reward
        nothing.

        Raises:
            NotFiniteError: names the question, the turn and the term.
        """
        numbers = {**terms.values, "the reward of the turn": terms.reward}
        for term in terms.tokens:
            numbers |= {term.name: term.value, f"weight of {term.name}": term.weight}
        self._refuse_not_finite(numbers, f"turn {len(self.trajectory.turns)}, reward term")
        function = self.env.reward_function
        if function is None or not function.replaces:
            return terms
        return RewardTerms(
            terms.values, tokens=tuple(replace(term, weight=0.0) for term in terms.tokens)
        )

    def _refuse_not_finite(self, numbers: Mapping[str, float], what: str) -> None:
        for name, value in numbers.items():
            if not is_finite(value):
                raise NotFiniteError(
                    f"question {self.trajectory.question_id!r}, {what} {name!r}: it is {value}, "
                    "and has to "
                    "be a finite number of 32 bits: mend it in the system "
                    f"{self.trajectory.system!r}"
                )

    def reward(self, terms: RewardTerms) -> None:
        """Note terms of the last turn."""
        played = self.trajectory.turns[-1]
        for term in terms.tokens:
            played.terms[term.name] = played.terms.get(term.name, 0.0) + term.value
        played.reward += terms.reward + sum(term.reward for term in terms.tokens)
        played.terms.update(terms.values)

    def close(self, end: EndReason, sample: Sample) -> None:
        """Note how the trajectory ended, its outcome, the environment's numbers and its searches'.

        Raises:
            NotFiniteError: names the question and the number.
        """
        trajectory = self.trajectory
        # a trajectory that the rollout ended has no last step to tell it
        if (written := self.env.outcome()) is not None and trajectory.turns:
            last = trajectory.turns[-1]
            last.info = {**last.info, WRITTEN: written.to_dict()}
        trajectory.end = end.value
        trajectory.status = (Status.FINISHED if end.complete else Status.UNFINISHED).value
        trajectory.text = self.env.trajectory_text()
        gold = [PageRef(doc_id, page) for doc_id, page in sample.gold_pages]
        by_turn = dict(enumerate(self.searches, start=1))
        numbers = self.env.metrics()
        marks = self.env.marks
        self._refuse_not_finite(numbers, "number")
        trajectory.outcome = marks.outcome_of(numbers)
        trajectory.well_formed = marks.form_of(numbers)
        judged = trajectory.outcome.metrics() if trajectory.outcome is not None else {}
        trajectory.metrics = {**numbers, **judged, **search_metrics(by_turn, gold)}

    async def own_terms(self, sample: Sample) -> RewardTerms | None:
        """Ask the user's reward function about a trajectory that is closed and has its reward.

        Returns:
            Terms for the last turn, which are among the trajectory's numbers then; `None` without a
            function or without a turn.

        Raises:
            RewardFunctionError: it raised, or returned no finite reward.
        """
        function = self.env.reward_function
        turns = self.trajectory.turns
        if function is None or not turns:
            return None
        began = time.perf_counter()
        # in a thread: the record of a long trajectory is megabytes
        values = await function(await asyncio.to_thread(reward_call, self.trajectory, sample))
        turns[-1].seconds["reward_function"] = time.perf_counter() - began
        self.trajectory.metrics |= {f"reward/{name}": value for name, value in values.items()}
        return RewardTerms(values, reward=function.weight * values[function.name])
