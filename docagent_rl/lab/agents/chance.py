"""A player that knows nothing: legal turns, drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.envs.script import COMMON_WORDS, Move, content_words
from docagent_rl.envs.scripted_agent import Act, AgentState, ScriptedAgent
from docagent_rl.lab.agents.scripted import state_of
from docagent_rl.lab.agents.texts import play_texts, said
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

_ANSWERS = ("yes", "no", "1", "2", "3", "4", "5", "10", NOT_ANSWERABLE)


@dataclass(frozen=True, slots=True)
class ChancePlayer:
    """A `Player` that takes any legal action, with any argument: the floor of a system.

    It sees the question and the number of pages, and never the references.

    Args:
        resources: what the environments share.
        seed: of all its choices, with question and trajectory.
        validate: environments are those of an evaluation.
    """

    resources: EnvResources
    seed: int = 0
    validate: bool = True
    agent: ScriptedAgent = field(init=False)

    def __post_init__(self) -> None:
        agent = self.resources.system.make_agent(self.resources.env_config)
        object.__setattr__(self, "agent", agent)

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Player`."""
        environment = environment_identity(self.resources, validate=self.validate)
        return {"player": "chance", "seed": self.seed, "environment": environment}

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """See `Player`."""
        state = state_of(self.resources, sample, f"chance {self.seed} {sample.question_id} {number}")

        async def write(trajectory: Trajectory) -> AssistantTurn:
            if trajectory.turns:
                state.turn, state.info = len(trajectory.turns) + 1, trajectory.turns[-1].info
                self.agent.look(state)
            return said(self.agent.write(any_act(self.agent, state), state))

        env = self.resources.environment(validate=self.validate)
        trajectory = new_trajectory(sample, number, self.resources.system.name)
        return await play_texts(env, sample, write, trajectory)

    async def close(self) -> None:
        """See `Player`: there is nothing to let go of."""


def any_act(agent: ScriptedAgent, state: AgentState) -> Act:
    """A legal action with arguments drawn at random."""
    rng, question = state.rng, state.sample.question
    move = rng.choice(agent.legal(state))
    if move is Move.SEARCH:
        words = [*content_words(question), *COMMON_WORDS]
        return Act(move, query=" ".join(rng.sample(words, min(3, len(words)))))
    if move is Move.SELECT:
        return Act(move, index=rng.randrange(max(1, len(state.brought))))
    if move in (Move.FETCH, Move.READ):
        return Act(move, pages=(PageRef(state.sample.doc_id, rng.randint(1, state.num_pages)),))
    if move is Move.CROP:
        left, top = rng.uniform(0, 0.7), rng.uniform(0, 0.7)
        box = (left, top, rng.uniform(left + 0.2, 1), rng.uniform(top + 0.2, 1))
        return Act(move, boxes=(box,))
    if move is Move.ANSWER:
        return Act(move, text=rng.choice((*_ANSWERS, rng.choice(content_words(question)))))
    return Act(move)
