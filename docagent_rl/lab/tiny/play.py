"""Scripted policies in real environments, and their turns as conversations."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import cycle
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.images import render
from docagent_rl.envs.script import Script
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.system import System
from docagent_rl.lab.agents.random_turns import QuestionStatistics, RandomContext, random_turn
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.lab.sft.exports import Turn, conversations
from docagent_rl.lab.sft.trajectories import DropReason
from docagent_rl.lab.tiny.tokenizer import Conversation
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample

LONGEST = 40
"""Most pages of a document, as long as there are such documents, which keeps overviews and page
numbers short.
"""

KEPT_IMAGES = 512
"""Number of rendered images that a stage caches."""


@dataclass(frozen=True)
class PlayStage:
    """The environments in which scripts play `samples`, whose documents are in the store."""

    system: System
    config: BaseModel
    services: EnvServices
    samples: Sequence[Sample]

    @cached_property
    def prompt(self) -> PromptTemplate:
        """The system's prompt, read once."""
        return self.system.load_prompt(self.config)

    @cached_property
    def playable(self) -> list[Sample]:
        """Questions about short documents, or all questions if there are none.

        Raises:
            UserError: there is no question with an answer.
        """
        answered = [sample for sample in self.samples if sample.answers]
        if not answered:
            raise UserError("scripted trajectories need at least one question with an answer")
        return [sample for sample in answered if self.num_pages(sample) <= LONGEST] or answered

    @cached_property
    def statistics(self) -> QuestionStatistics:
        """Statistics of the questions that are played."""
        return QuestionStatistics.of(self.playable)

    @cached_property
    def show(self) -> Any:
        """A cached function from a picture to its pixels."""
        return lru_cache(maxsize=KEPT_IMAGES)(lambda picture: render(picture, self.services.store))

    def num_pages(self, sample: Sample) -> int:
        """Return the number of pages of a question's document."""
        return self.services.store.document(sample.doc_id).num_pages

    def environment(self) -> DocEnv:
        """Open a fresh environment."""
        return self.system.open(self.config, self.services, self.prompt, validate=False)

    def message(self, turn: Turn) -> dict[str, Any]:
        """Return a chat message with pixels; without images the content is a string, as in a
        rollout.
        """
        if not turn.images:
            return {"role": turn.role, "content": "".join(map(str, turn.parts))}
        parts = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image", "image": self.show(part)}
            for part in turn.parts
        ]
        return {"role": turn.role, "content": parts}


@dataclass(frozen=True, slots=True)
class StagedPlayer:
    """A script with its stage."""

    stage: PlayStage
    script: Script


async def play(stage: PlayStage, script: Script, sample: Sample, rng: random.Random) -> Trajectory:
    """Play one trajectory to its end.

    Raises:
        UserError: the sample cannot be played.
        InfrastructureError: a service failed.
    """
    turns = stage.system.max_turns(stage.config)
    context = RandomContext(sample, turns, rng, stage.num_pages(sample), stage.statistics)

    async def write(trajectory: Trajectory) -> TrajectoryTurn:
        if trajectory.turns:
            context.turn = len(trajectory.turns) + 1
            context.record = trajectory.turns[-1].record
        return whole_turn(random_turn(script, context).text)

    return await play_texts(
        stage.environment(), sample, write, new_trajectory(sample, 0, stage.system.name)
    )


def scripted_conversations(players: Sequence[StagedPlayer], seed: int) -> Iterator[Conversation]:
    """Yield conversations endlessly, the same for the same arguments; for `WarmUp.transcripts`.

    The players take turns, one trajectory each.

    Raises:
        UserError: there is no question, or one cannot be played.
        InfrastructureError: a service failed.
    """
    rng = random.Random(seed)
    with asyncio.Runner() as runner:
        for player in cycle(players):
            stage = player.stage
            sample = rng.choice(player.stage.playable)
            contexts = conversations(runner.run(play(stage, player.script, sample, rng)))
            for turns in () if isinstance(contexts, DropReason) else contexts:
                yield [stage.message(turn) for turn in turns]
