"""The interface of players, and the recorder of everything in a trajectory except its tokens."""

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
    """Plays questions in real environments, many concurrently in one event loop."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Return what trajectories depend on: model, prompt, environment, sampling, seed.

        It contains no secrets. A run can only be resumed with a player of the same identity.
        """
        ...

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one question to its end.

        `number` counts the trajectories of the question from 0; with a deterministic model, the
        same number gives the same trajectory.

        Raises:
            UserError: the question cannot be played.
            InfrastructureError: a service still failed after its own retries.
        """
        ...

    async def close(self) -> None:
        """Release servers and processes; may be called twice."""
        ...


def new_trajectory(sample: Sample, number: int, system: str) -> Trajectory:
    """Create an empty trajectory outside training."""
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
    """Call a listener after each turn of every trajectory that is played within the context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class NotFiniteError(ValueError):
    """A reward term or metric of an environment is NaN or infinite: a bug in its system."""


@dataclass(slots=True)
class Recorder:
    """Steps an environment and records the results in a trajectory; the player adds its turns."""

    env: DocEnv
    trajectory: Trajectory
    notes: list[SearchNote] = field(default_factory=list)
    """The searches of the current turn."""
    searches: list[list[SearchNote]] = field(default_factory=list)
    """The searches of each turn."""

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record the searches that are made within the context."""
        with noting() as self.notes:
            yield

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the last turn of the trajectory; its terms are those that count (`counted`).

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
        """Settle a trajectory that the player has to end (`DocEnv.conclude`); raises like
        `step`.
        """
        return self.counted(await self.env.conclude(reason))

    def counted(self, terms: RewardTerms) -> RewardTerms:
        """Return the environment's terms as they count in the reward of the last turn.

        If the user's reward function replaces the reward, the terms keep their values but add
        nothing to the reward.

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
                    f"question {self.trajectory.question_id!r}, {what} {name!r} is {value}, but "
                    "must be a finite 32-bit number: fix it in the system "
                    f"{self.trajectory.system!r}"
                )

    def reward(self, terms: RewardTerms) -> None:
        """Add terms to the record of the last turn."""
        played = self.trajectory.turns[-1]
        for term in terms.tokens:
            played.terms[term.name] = played.terms.get(term.name, 0.0) + term.value
        played.reward += terms.reward + sum(term.reward for term in terms.tokens)
        played.terms.update(terms.values)

    def close(self, end: EndReason, sample: Sample) -> None:
        """Record how the trajectory ended, its outcome, and the metrics of environment and
        searches.

        Raises:
            NotFiniteError: names the question and the metric.
        """
        trajectory = self.trajectory
        # if the rollout ended the trajectory, no step has recorded this answer
        if (written := self.env.outcome()) is not None and trajectory.turns:
            last = trajectory.turns[-1]
            last.info = {**last.info, WRITTEN: written.to_dict()}
        trajectory.end = end.value
        trajectory.status = (Status.FINISHED if end.complete else Status.UNFINISHED).value
        trajectory.text = self.env.trajectory_text()
        gold = [PageRef(doc_id, page) for doc_id, page in sample.gold_pages]
        by_turn = dict(enumerate(self.searches, start=1))
        numbers = self.env.metrics()
        names = self.env.outcome_metrics
        self._refuse_not_finite(numbers, "metric")
        trajectory.outcome = names.outcome_of(numbers)
        trajectory.well_formed = names.form_of(numbers)
        judged = trajectory.outcome.metrics() if trajectory.outcome is not None else {}
        trajectory.metrics = {**numbers, **judged, **search_metrics(by_turn, gold)}

    async def own_terms(self, sample: Sample) -> RewardTerms | None:
        """Call the user's reward function for a closed trajectory that has its reward.

        Returns:
            The terms for the last turn, which are also added to the trajectory's metrics; `None` if
            there is no function or no turn.

        Raises:
            RewardFunctionError: the function raised, or returned no finite reward.
        """
        function = self.env.reward_function
        turns = self.trajectory.turns
        if function is None or not turns:
            return None
        began = time.perf_counter()
        # in a thread, since serialising a long trajectory takes megabytes
        values = await function(await asyncio.to_thread(reward_call, self.trajectory, sample))
        turns[-1].seconds["reward_function"] = time.perf_counter() - began
        self.trajectory.metrics |= {f"reward/{name}": value for name, value in values.items()}
        return RewardTerms(values, reward=function.weight * values[function.name])
