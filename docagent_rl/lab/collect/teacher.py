"""A teacher behind endpoints, with the help that a collection gives it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.services import RetrieverService
from docagent_rl.lab.agents.chat import ChatLimits, ChatModel, ChatPlayer
from docagent_rl.lab.collect.config import TeacherConfig
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


@dataclass(frozen=True, slots=True)
class HelpedRetriever:
    """The retriever of one trajectory: `gold` pages come first, and what comes first is shuffled.

    With gold pages first it is VRAG-RL's released collection. The hits of a search, as far as there are
    places, are put into the next of the `orders`. The search log holds the hits in their own order.
    """

    service: RetrieverService
    gold: frozenset[PageRef] = frozenset()
    orders: Iterator[tuple[int, ...]] | None = None

    async def search(self, query: str, **where: Any) -> list[Hit]:
        """Search, and put the hits in the order that helps."""
        hits = await self.service.search(query, **where)
        hits = sorted(hits, key=lambda hit: hit.ref not in self.gold)
        if self.orders is None:
            return hits
        order = next(self.orders)
        return [*(hits[place] for place in order if place < len(hits)), *hits[len(order) :]]


class TeacherPlayer(ChatPlayer):
    """A `Player` in the environments of training: a chat model whose searches are helped.

    `seed` is of the shuffling.
    """

    def __init__(
        self,
        resources: EnvResources,
        model: ChatModel,
        limits: ChatLimits,
        config: TeacherConfig,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(resources, model, limits, validate=False)
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
        gold = frozenset(PageRef(*page) for page in sample.gold_pages if config.guided_search)
        retriever = HelpedRetriever(services.retriever, gold, orders)
        services = replace(services, retriever=cast("RetrieverService", retriever))
        return resources.system.open(resources.env_config, services, resources.prompt, validate=False)
