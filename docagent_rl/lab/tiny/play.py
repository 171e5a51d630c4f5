"""Scripted policies in real environments, and their turns as conversations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import cycle
from typing import Any, cast

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptTemplate
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    ImagePart,
    Message,
    Observation,
    StepResult,
    TextPart,
)
from docagent_rl.envs.images import render
from docagent_rl.envs.script import Line, QuestionStatistics, Script, ScriptContext
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.system import System
from docagent_rl.lab.tiny.tokenizer import Conversation
from docagent_rl.samples.sample import Sample

LONGEST = 40
"""Pages of a document at most, if there are such documents: overviews and page numbers stay short."""

KEPT_IMAGES = 512
"""Rendered images that a stage keeps."""


@dataclass(frozen=True)
class Stage:
    """The place where scripts play.

    Args:
        system: the system.
        config: its configuration, parsed.
        services: real ones.
        samples: questions to play; each document must be in the store.
    """

    system: System
    config: Any
    services: EnvServices
    samples: Sequence[Sample]

    @cached_property
    def prompt(self) -> PromptTemplate:
        """The system's prompt, read once."""
        return self.system.load_prompt(self.config)

    @cached_property
    def playable(self) -> list[Sample]:
        """Questions about short documents, or all of them when there are none.

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
        """A function from a picture to its pixels; the last ones are kept."""
        return lru_cache(maxsize=KEPT_IMAGES)(lambda picture: render(picture, self.services.store))

    def num_pages(self, sample: Sample) -> int:
        """Return the pages of a question's document."""
        return self.services.store.document(sample.doc_id).num_pages

    def environment(self) -> DocEnv:
        """Open a fresh environment."""
        return self.system.open(self.config, self.services, self.prompt, validate=False)

    def messages(self, observation: Observation) -> list[dict[str, Any]]:
        """Return chat messages with pixels; text alone is a plain string, as in a rollout."""
        return [self._message(message) for message in observation.messages]

    def _message(self, message: Message) -> dict[str, Any]:
        role = message.role.value
        if not any(isinstance(part, ImagePart) for part in message.parts):
            return {"role": role, "content": "".join(cast("TextPart", part).text for part in message.parts)}
        return {"role": role, "content": [self._part(part) for part in message.parts]}

    def _part(self, part: ImagePart | TextPart) -> dict[str, Any]:
        if isinstance(part, ImagePart):
            return {"type": "image", "image": self.show(part.image)}
        return {"type": "text", "text": part.text}


@dataclass(frozen=True, slots=True)
class Player:
    """A script on its stage."""

    stage: Stage
    script: Script


@dataclass(slots=True)
class Played:
    """One scripted trajectory.

    Args:
        conversations: one a context, each ending with a turn of the script.
        lines: the turns.
        results: of the environment, one a turn.
        metrics: its numbers at the end.
    """

    conversations: list[list[dict[str, Any]]]
    lines: list[Line] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)


async def play(stage: Stage, script: Script, sample: Sample, rng: random.Random) -> Played:
    """Play one trajectory to its end.

    Raises:
        UserError: the question cannot be played.
        InfrastructureError: a service failed.
    """
    env = stage.environment()
    turns = stage.system.max_turns(stage.config)
    context = ScriptContext(sample, turns, rng, stage.num_pages(sample), stage.statistics)
    played = Played([stage.messages(await env.reset(sample))])
    while True:
        line = script.line(context)
        played.conversations[-1].append({"role": "assistant", "content": line.text})
        result = await env.step(AssistantTurn(line.text))
        played.lines.append(line)
        played.results.append(result)
        if result.observation is None:
            played.metrics = env.metrics()
            return played
        messages = stage.messages(result.observation)
        if result.observation.fresh:
            played.conversations.append(messages)
        else:
            played.conversations[-1] += messages
        context.turn, context.info = context.turn + 1, result.info


def scripted_conversations(players: Sequence[Player], seed: int) -> Iterator[Conversation]:
    """Yield conversations without end, the same for the same arguments; for `WarmUp.transcripts`.

    Args:
        players: they play in turn, a trajectory each.
        seed: of all choices.

    Raises:
        UserError: there is no question, or one cannot be played.
        InfrastructureError: a service failed.
    """
    rng = random.Random(seed)
    with asyncio.Runner() as runner:
        for player in cycle(players):
            sample = rng.choice(player.stage.playable)
            yield from runner.run(play(player.stage, player.script, sample, rng)).conversations
