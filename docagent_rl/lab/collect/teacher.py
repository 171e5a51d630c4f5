"""A teacher behind endpoints, with the help that a collection gives to it."""

from __future__ import annotations

import asyncio
import io
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from PIL import Image

from docagent_rl.actions.base import Box
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.chat_reply import ChatMessage, ChatReply
from docagent_rl.endpoints.usage import image_part_bytes
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.agents.chat import ChatLimits, ChatModel, ChatPlayer
from docagent_rl.lab.collect.config import TeacherConfig
from docagent_rl.lab.collect.rules import BoxFrame
from docagent_rl.retrieval import Hit
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.samples.sample import Sample


def shuffled_orders(size: int, seed: str) -> Iterator[tuple[int, ...]]:
    """Yield permutations without end, each equally often: a shuffled pool of all of them is used up
    and refilled.

    UniDoc-RL: the index of the right candidate must not become a habit.
    """
    rng = random.Random(seed)
    while True:
        pool = list(itertools.permutations(range(size)))
        rng.shuffle(pool)
        yield from reversed(pool)


@dataclass(frozen=True, slots=True)
class HelpedRetriever:
    """The retriever of one trajectory, which ranks `gold` pages first and shuffles the first hits.

    Gold pages first is what VRAG-RL's released collection does. The first hits of each search are
    arranged by the next of the `orders`. The search log keeps the hits in their original order.
    """

    service: RetrieverService
    gold: frozenset[PageRef] = frozenset()
    orders: Iterator[tuple[int, ...]] | None = None

    async def search(self, query: str, **where: Any) -> list[Hit]:
        """Search, and rearrange the hits."""
        hits = await self.service.search(query, **where)
        hits = sorted(hits, key=lambda hit: hit.ref not in self.gold)
        if self.orders is None:
            return hits
        order = next(self.orders)
        return [*(hits[place] for place in order if place < len(hits)), *hits[len(order) :]]


class TeacherPlayer(ChatPlayer):
    """A `Player` in the environments of training: a chat model whose searches and boxes are helped.

    `grounder` draws the boxes if `config` says so; `seed` determines the shuffling.

    Raises:
        UserError: a grounding model is missing, or was given but is not used, or the system has no
            boxes.
    """

    def __init__(
        self,
        resources: EnvResources,
        model: ChatModel,
        limits: ChatLimits,
        config: TeacherConfig,
        *,
        grounder: ChatModel | None = None,
        seed: int = 0,
    ) -> None:
        helped = with_grounder(resources, model, config, grounder)
        super().__init__(resources, helped, limits, validate=False)
        self.config = config
        self.seed = seed

    @property
    def identity(self) -> Mapping[str, Any]:
        """Identity of the chat player, and the help and its seed."""
        config = self.config.model_dump(mode="json")
        return {**super().identity, "player": "teacher", "teacher": config, "seed": self.seed}

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one trajectory, with a retriever of its own if searches are
        helped.
        """
        config = self.config
        resources = self.resources
        services = self.resources.services
        if not config.guided_search and config.shuffled_candidates is None:
            return super().environment(sample, number)
        orders = None
        if config.shuffled_candidates is not None:
            seed = f"{self.seed} {sample.question_id} {number}"
            orders = shuffled_orders(config.shuffled_candidates, seed)
        gold = frozenset(PageRef(*page) for page in sample.gold_pages if config.guided_search)
        retriever = HelpedRetriever(services.retriever, gold, orders)
        services = replace(services, retriever=cast("RetrieverService", retriever))
        return resources.system.open(
            resources.env_config, services, resources.prompt, validate=False
        )


def with_grounder(
    resources: EnvResources, model: ChatModel, config: TeacherConfig, grounder: ChatModel | None
) -> ChatModel:
    """Return the teacher, combined with the model that draws its boxes if the collection has one.

    Raises:
        UserError: see `TeacherPlayer`.
    """
    if grounder is not None and not config.grounding:
        raise UserError(
            "a grounding model was given, but the collection does not use one: set "
            "teacher.grounding: true, or leave the model out"
        )
    if not config.grounding:
        return model
    if grounder is None:
        raise UserError(
            "the collection has a second model draw the boxes: give --grounder-base-url and "
            "--grounder-model, or set teacher.grounding: false in a configuration of your own"
        )
    ruler = _ruler(resources)
    frame = config.grounding_frame
    return GroundedModel(remote=model.remote, ruler=ruler, grounder=grounder, measured=frame)


def _ruler(resources: EnvResources) -> Ruler:
    coords, display = (getattr(resources.env_config, name, None) for name in ("coords", "display"))
    if coords is None or display is None:
        name = resources.system.name
        raise UserError(f"the actions of {name} have no boxes: leave out teacher.grounding")
    return lambda shown: coords.frame.size(shown, display.encoder(shown))


GROUNDING_PROMPT = PromptSpec(required=frozenset({"user"}), variables=frozenset({"frame"}))
REPLY_TOKENS = 256
_BBOX = re.compile(r"<bbox>([^<>]*)</bbox>\s*$")
_NUMBER = re.compile(r"-?\d{1,6}(?:\.\d{1,6})?")

Ruler = Callable[[tuple[int, int]], tuple[int, int]]
"""Takes the size of a shown image; returns the width and height of the frame in which boxes on it
are measured.
"""


@dataclass(frozen=True, kw_only=True)
class GroundedModel(ChatModel):
    """A teacher whose boxes are drawn by a second model (VRAG-RL, Eq. 5); the rest of a turn is the
    teacher's.

    The second model sees the conversation and the teacher's reasoning. If its reply does not
    contain four numbers that form a box, the teacher's own box remains.
    """

    grounder: ChatModel
    ruler: Ruler
    """Gives the unit of the environment's boxes."""
    measured: BoxFrame
    """The unit of the grounder's numbers."""
    prompt: PromptTemplate = field(
        default_factory=lambda: load_prompt("grounding", GROUNDING_PROMPT)
    )

    @property
    def identity(self) -> Mapping[str, Any]:
        """Both models, the unit of the boxes, and the prompt."""
        return {
            "teacher": dict(super().identity),
            "grounder": dict(self.grounder.identity),
            "measured": self.measured.value,
            "prompt": self.prompt.digest,
        }

    async def reply(
        self, messages: Sequence[ChatMessage], *, most: int, sample: int, seed: int | None
    ) -> ChatReply:
        """Ask the teacher for a turn, and the grounder for its box if the turn has one."""
        reply = await super().reply(messages, most=most, sample=sample, seed=seed)
        found = _BBOX.search(reply.text)
        size = await asyncio.to_thread(_last_image_size, messages) if found else None
        if found is None or size is None:
            return reply
        question = {
            "role": "user",
            "content": self.prompt.render("user", frame=self.measured.value),
        }
        thought = {"role": "assistant", "content": reply.text[: found.start()]}
        asked = [*messages, thought, question]
        said = await self.grounder.reply(asked, most=REPLY_TOKENS, sample=sample, seed=seed)
        box = _first_box(said.text, size if self.measured is BoxFrame.DISPLAYED else (1000, 1000))
        text = reply.text if box is None else _with_box(reply.text, found, box, self.ruler(size))
        return replace(reply, text=text)

    async def close(self) -> None:
        """Close both models."""
        await super().close()
        await self.grounder.close()


def _last_image_size(messages: Sequence[ChatMessage]) -> tuple[int, int] | None:
    parts = [
        part
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    data = image_part_bytes(parts[-1]) if parts else None
    if data is None:
        return None
    # safe to open: we encoded it a moment ago
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def _first_box(text: str, frame: tuple[int, int]) -> Box | None:
    """Return the first four numbers as fractions of a frame's sides, clamped; `None` if they do not
    span an area.
    """
    numbers = [float(number) for number in _NUMBER.findall(text)[:4]]
    if len(numbers) < 4:
        return None
    x1, y1, x2, y2 = (
        min(max(edge / side, 0.0), 1.0) for edge, side in zip(numbers, frame * 2, strict=True)
    )
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None


def _with_box(text: str, found: re.Match[str], box: Box, sides: tuple[int, int]) -> str:
    """Return the turn with other coordinates, in its own form: one box, or a list of boxes."""
    drawn = written_box(box, sides)
    several = found[1].strip().startswith("[[")
    return f"{text[: found.start(1)]}{[drawn] if several else drawn}{text[found.end(1) :]}"


def written_box(box: Box, sides: tuple[int, int]) -> list[int]:
    """Return a box in fractions as a policy writes it: in units of `sides`, rounded outward."""
    return [
        *(math.floor(round(edge * side, 6)) for edge, side in zip(box[:2], sides, strict=True)),
        *(math.ceil(round(edge * side, 6)) for edge, side in zip(box[2:], sides, strict=True)),
    ]
