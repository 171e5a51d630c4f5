from __future__ import annotations

import asyncio
import dataclasses
import threading

import pytest

from docagent_rl.actions.base import Action, Answer, Read
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    EnvState,
    Observation,
    RewardTerms,
    StepResult,
    TextPart,
    UnknownActionError,
)
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.envs.turn_log import describe_action
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.systems import SYSTEMS, get_system


@dataclasses.dataclass(frozen=True, slots=True)
class Mark(Action):
    """An action that no environment here knows, though it names pages as a fetch does."""

    pages: tuple[int, ...]
    boxes: tuple[tuple[float, float], ...] = ()


class Plain(DocEnv):
    """Notes what is called, and whether on the event loop; has its prompt written by a service."""

    def __init__(self) -> None:
        self.called: list[tuple[str, bool]] = []

    def note(self, name: str) -> None:
        self.called.append((name, threading.current_thread() is threading.main_thread()))

    def new_state(self, sample):
        self.note("open")
        return super().new_state(sample)

    async def prepare(self, state):
        await asyncio.sleep(0)
        self.note("prepare")

    def show_prompt(self, state):
        self.note("show")
        assert self.running is state
        return Observation.user(TextPart(state.sample.question))

    async def step(self, turn):
        self.running.end = EndReason.ANSWERED
        return StepResult(None, end=EndReason.ANSWERED)

    async def conclude(self, reason):
        return RewardTerms()

    def metrics(self):
        return {"turns": float(len(self.state.log.turns))}


@pytest.fixture
def services(world):
    return EnvServices(world.store, RetrieverService(world.retriever), RuleJudge())


async def test_an_trajectory_is_opened_in_a_thread_and_prepared_on_the_loop(world):
    env, sample = Plain(), world.samples[0]
    assert await env.reset(sample) == Observation.user(TextPart(sample.question))
    assert env.called == [("open", False), ("prepare", True), ("show", False)]
    assert env.state == EnvState(sample)
    # an opening asks nobody
    fresh = Plain()
    assert fresh.opening(sample) == Observation.user(TextPart(sample.question))
    assert [name for name, _ in fresh.called] == ["open", "show"]


async def test_an_trajectory_must_have_begun_and_not_have_ended(world):
    env = Plain()
    with pytest.raises(RuntimeError, match="reset"):
        env.metrics()
    await env.reset(world.samples[0])
    await env.step(AssistantTurn("answer"))
    with pytest.raises(RuntimeError, match="answered"):
        await env.step(AssistantTurn("once more"))
    assert env.metrics() == {"turns": 0.0}
    await env.reset(world.samples[0])
    assert env.running.end is None


@pytest.mark.parametrize("action", [Mark((0, 5), (1, 4), (1,)), Read((0, 5), (1, 4), (1,), "why")])
@pytest.mark.parametrize("name", SYSTEMS)
async def test_an_action_that_an_environment_does_not_know_is_an_error(name, action, world, services):
    system = get_system(name)
    env = system.make_env(system.small, services)
    grammar = env._grammar

    class Newer:
        """The system's grammar after somebody added an action, and forgot the environment."""

        def parse(self, *args, **kwargs):
            parsed = grammar.parse(*args, **kwargs)
            return dataclasses.replace(parsed, action=action)

    env._grammar = Newer()
    await env.reset(world.samples[0])
    with pytest.raises(UnknownActionError, match=type(action).__name__):
        await env.step(AssistantTurn("<mark>1, 2</mark>"))


def test_an_action_of_a_system_is_described_without_the_kernel_knowing_it():
    @dataclasses.dataclass(frozen=True, slots=True)
    class LongAnswer(Answer):
        sources: tuple[int, ...] = ()

    spans = {"block": [0, 5], "argument": None}
    marked = {"kind": "mark", **spans, "pages": [3], "boxes": [[1.0, 2.0]]}
    assert describe_action(Mark((0, 5), None, (3,), ((1.0, 2.0),))) == marked
    # a form of a known action is recorded as that
    assert describe_action(LongAnswer((0, 5), None, "x", (1,))) == {"kind": "answer", **spans, "text": "x"}
