"""A teacher behind endpoints, with the help that a collection gives it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.agents.chat import ChatLimits, ChatPlayer
from docagent_rl.lab.agents.chat_model import ChatModel
from docagent_rl.lab.collect.config import TeacherConfig
from docagent_rl.lab.collect.regions import GroundedModel, Ruler
from docagent_rl.retrieval import Hit
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.samples.sample import Sample


def shuffled_orders(size: int, seed: str) -> Iterator[tuple[int, ...]]:
    """Yield permutations from a shuffled pool of all, refilled when it is empty, without end.

    So each comes equally often (UniDoc-RL: the index of the right candidate must not be a habit).
    """
    rng = random.Random(seed)
    while True:
        pool = list(itertools.permutations(range(size)))
        rng.shuffle(pool)
        yield from reversed(pool)


class HelpedRetriever:
    """The retriever of one trajectory: gold pages come first, and what comes first is shuffled.

    With `guided` gold pages come first (VRAG-RL's released collection); the hits of a search, as far as
    there are places, are put into the next of the `orders`. The search log holds the hits in their own order.
    """

    def __init__(
        self,
        service: RetrieverService,
        sample: Sample,
        *,
        guided: bool,
        orders: Iterator[tuple[int, ...]] | None,
    ) -> None:
        self._service, self._orders = service, orders
        self._gold = frozenset(PageRef(doc_id, page) for doc_id, page in sample.gold_pages if guided)

    async def search(self, query: str, **where: Any) -> list[Hit]:
        """Search, and put the hits in the order that helps."""
        hits = await self._service.search(query, **where)
        hits = sorted(hits, key=lambda hit: hit.ref not in self._gold)
        if self._orders is None:
            return hits
        order = next(self._orders)
        return [*(hits[place] for place in order if place < len(hits)), *hits[len(order) :]]


class TeacherPlayer(ChatPlayer):
    """A `Player` in the environments of training: a chat model whose searches and boxes are helped.

    `grounder` draws boxes where `config` has it so; `seed` is of the shuffling.

    Raises:
        UserError: the help needs boxes and the system has none, or a model is missing or named in vain.
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
        helped = grounded(resources, model, config, grounder)
        super().__init__(resources, helped, limits, form=config.images, validate=False)
        self.config, self.seed = config, seed

    @property
    def identity(self) -> Mapping[str, Any]:
        """Identity of the chat player, help and seed."""
        config = self.config.model_dump(mode="json")
        return {**super().identity, "player": "teacher", "teacher": config, "seed": self.seed}

    def environment(self, sample: Sample, number: int) -> DocEnv:
        """Open the environment of one trajectory, with its own retriever where searches are helped."""
        config, resources, services = self.config, self.resources, self.resources.services
        if not config.guided_search and config.shuffled_candidates is None:
            return super().environment(sample, number)
        orders = None
        if config.shuffled_candidates is not None:
            seed = f"{self.seed} {sample.question_id} {number}"
            orders = shuffled_orders(config.shuffled_candidates, seed)
        retriever = HelpedRetriever(services.retriever, sample, guided=config.guided_search, orders=orders)
        services = replace(services, retriever=cast("RetrieverService", retriever))
        return resources.system.open(resources.env_config, services, resources.prompt, validate=False)


def grounded(
    resources: EnvResources, model: ChatModel, config: TeacherConfig, grounder: ChatModel | None
) -> ChatModel:
    """Return a teacher with the model that draws its boxes, where the collection has one do so.

    Raises:
        UserError: see `TeacherPlayer`.
    """
    if grounder is not None and not config.grounding:
        raise UserError("a grounding model is named, and the collection lets none draw boxes (grounding)")
    if not config.grounding:
        return model
    if grounder is None:
        raise UserError(
            "the collection has a second model draw boxes: name it by --grounder-base-url and "
            "--grounder-model, or set teacher.grounding: false in a file of your own"
        )
    ruler, frame = _ruler(resources), config.grounding_frame
    return GroundedModel(remote=model.remote, ruler=ruler, grounder=grounder, measured=frame)


def _ruler(resources: EnvResources) -> Ruler:
    coords, display = (getattr(resources.env_config, name, None) for name in ("coords", "display"))
    if coords is None or display is None:
        name = resources.system.name
        raise UserError(f"{name} has no boxes: leave out teacher.grounding")
    return lambda shown: coords.frame.size(shown, display.encoder(shown))
