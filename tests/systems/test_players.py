"""Whole episodes of all systems: what an oracle is paid, and that nothing but the turns decides.

What every turn of an adversary is paid, and why, is recomputed in `tests/players`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from docagent_rl.envs.delivery import render
from docagent_rl.systems import get_system
from tests.systems.alden import play as alden
from tests.systems.doc_v_star import play as doc_v_star
from tests.systems.mm_doc_r1 import play as mm_doc_r1
from tests.systems.unidoc_rl import play as unidoc_rl
from tests.systems.vrag_rl import play as vrag_rl

SHARED = {"search": {"text_ranking": "shared"}}
LENIENT = {"released_lenient_regex": True, "repeat_page": "reminder"}
BOXES = {3: ((0.1, 0.15, 0.5, 0.45), (0.55, 0.5, 0.95, 0.6)), 4: ((0.2, 0.1, 0.9, 0.3),)}
ACROSS = {"extra": {"page_ids": ["K#3", "K#4", "M#1"]}, "evidence_boxes": BOXES}
TIGHT = {"context_tokens": 5200, "reserve_tokens": 500}
ALWAYS = {"turns", "finished", "invalid_action_rate", "pages_seen", "retrieval_recall", "context_full"}


@dataclass
class Case:
    """A system with its settings.

    Args:
        name: of the system.
        oracle: turns that are paid most.
        adversary: turns without any sense, by seed.
        settings: of the environment.
        sample: changes to the question.
        metrics: what they say of the oracle, by name.
    """

    name: str
    oracle: Callable
    adversary: Callable
    settings: Mapping = field(default_factory=dict)
    sample: Mapping = field(default_factory=lambda: {"extra": {}})
    metrics: Mapping = field(default_factory=dict)

    def __str__(self):
        return f"{self.name}-{'-'.join(str(value) for value in self.settings.values())}"[:40]

    def make(self, services):
        return get_system(self.name).make_env(self.settings, services)


def case(module, *, metrics, **more):
    name = module.__name__.split(".")[-2]

    def adversary(seed):
        return list(itertools.islice(module.adversary(random.Random(seed)), 14))

    def oracle(question, store):
        return list(module.oracle(question))

    return Case(name, **{"oracle": oracle, "adversary": adversary, "metrics": metrics, **more})


def drawing(variant):
    """UniDoc-RL's oracle, which has to know how large pages are shown."""

    def turns(question, store):
        shown = get_system("unidoc_rl").parse_config({"variant": variant}).display.shown
        return list(unidoc_rl.oracle(question, shown(store.document("K").page(3).size)))

    return turns


TOTAL = ("reward/total", "finished", "invalid_actions", "retrieval_recall")
ALDEN = dict.fromkeys(("reward/answer", "retrieval_precision", "retrieval_f1"), 1)
STAR = dict.fromkeys(("reward/answer", "reward/evidence", "reward/format", "format_ok"), 1)
UNIDOC = {"reward/roi": 1, "turns": 9, "searches": 3, "selections": 3, "crops": 2, "boxes": 3}
VRAG = {"reward/retrieval_ndcg": 1, "turns": 5, "searches": 3, "crops": 1, "invalid_rate_paper": 0}
CASES = [
    *(
        case(
            alden,
            settings={"variant": variant, "modality": modality, **SHARED, **more},
            metrics={**dict(zip(TOTAL, (7, 1, 0, 1), strict=True)), **ALDEN, "repeated_calls": 0},
        )
        for variant in ("paper", "released")
        for modality, more in (("visual", {}), ("hybrid", LENIENT))
    ),
    *(
        case(
            doc_v_star,
            adversary=lambda seed: doc_v_star.adversary(random.Random(seed), 9),
            settings=settings,
            sample={"extra": {}, **sample},
            metrics={**dict(zip(TOTAL[:3], (1, 1, 0), strict=True)), **STAR, "no_answer": 0},
        )
        for settings, sample in (
            ({}, {}),
            (TIGHT, {"evidence_pages": (3,), "answers": ("14,250",)}),
            ({}, {"answers": ("blue", "12", "March 3, 2019"), "answer_format": "list/extractive"}),
            ({}, {"answers": (), "answerable": False, "evidence_pages": ()}),
        )
    ),
    case(mm_doc_r1, metrics={"reward/page_recall": 1, "turns": 3, "finished": 1, "invalid_actions": 0}),
    *(
        case(
            unidoc_rl,
            oracle=drawing(variant),
            settings={"variant": variant},
            sample=ACROSS,
            metrics={**dict(zip(TOTAL, (1, 1, 0, 1), strict=True)), **UNIDOC},
        )
        for variant in ("paper", "released")
    ),
    *(
        case(
            vrag_rl,
            settings={"variant": variant},
            sample=ACROSS,
            metrics={**dict(zip(TOTAL, (1, 1, 0, 1), strict=True)), **VRAG},
        )
        for variant in ("paper", "released")
    ),
]


@pytest.fixture(params=CASES, ids=str)
def played(request):
    return request.param


async def test_the_oracle_gets_everything(played, services, store, record, play):
    """Every turn is recorded as JSON; images can be drawn, in the size that was announced."""
    question = record(**played.sample)
    episode = await play(played.make(services), question, played.oracle(question, store))
    assert {name: episode.metrics[name] for name in played.metrics} == pytest.approx(played.metrics)
    for number, result in enumerate(episode.results, start=1):
        info = dict(result.info)
        assert json.loads(json.dumps(info, allow_nan=False)) == info
        assert {"action", "valid", "reason", "executed", "effect", "seconds"} <= set(info)
        assert info["turn"] == number
        for image in result.observation.images if result.observation else ():
            assert render(image, store).size == image.size


def told(episode):
    """All that an episode says, but for the seconds it took."""
    infos = [{**result.info, "seconds": sorted(result.info["seconds"])} for result in episode.results]
    results = [(result.observation, result.terms) for result in episode.results]
    return json.dumps([infos, episode.metrics], allow_nan=False), results


async def test_the_same_turns_lead_to_the_same_episode(played, services, record, play):
    """One after the other or all at once, within the limits of the system."""
    question, system = record(**played.sample), get_system(played.name)
    scripts = [played.adversary(seed) for seed in range(8)]
    alone = [await play(played.make(services), question, turns) for turns in scripts]
    together = await asyncio.gather(*(play(played.make(services), question, turns) for turns in scripts))
    assert [told(episode) for episode in alone] == [told(episode) for episode in together]
    assert len({told(episode)[0] for episode in alone}) > 4
    config = system.parse_config(played.settings)
    for episode in alone:
        assert episode.results[-1].done
        assert len(episode.results) <= system.max_turns(config)
        shown = [image for r in episode.results if r.observation for image in r.observation.images]
        assert len(shown) <= system.max_images(config)
        paid = [r.terms.reward + sum(term.reward for term in r.terms.tokens) for r in episode.results]
        assert sum(paid) == pytest.approx(episode.metrics["reward/total"])


async def test_metrics_have_the_same_names_whatever_happens(played, services, store, record, play):
    question = record(**played.sample)
    scripts = [[], ["none"] * 12, played.oracle(question, store), *map(played.adversary, range(3))]
    episodes = [await play(played.make(services), question, turns) for turns in scripts]
    # what an action of Doc-V* brought is measured where it was used
    names = [[name for name in episode.metrics if "/page_" not in name] for episode in episodes]
    assert all(name == names[0] for name in names)
    recall = {"retrieval_recall"} if question.gold_pages else set()
    assert (ALWAYS - {"retrieval_recall"}) | recall | set(played.metrics) <= set(episodes[0].metrics)
    values = [value for episode in episodes for value in episode.metrics.values()]
    assert all(type(value) is float and math.isfinite(value) for value in values)
