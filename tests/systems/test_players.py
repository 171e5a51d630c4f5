"""Whole trajectories of all systems: what an oracle is paid, and that nothing but the turns decides.

What every turn of an adversary is paid, and why, is recomputed in `tests/players`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from docagent_rl.envs.images import render
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
ALWAYS = {"turns", "finished", "invalid_action_rate", "pages_seen", "context_full"}


@dataclass
class Case:
    """A system with its settings, changes to the question, and what an oracle is paid."""

    player: ModuleType
    settings: Mapping = field(default_factory=dict)
    sample: Mapping = field(default_factory=lambda: {"extra": {}})
    total: float = 1

    @property
    def name(self):
        return self.player.__name__.split(".")[-2]

    def __str__(self):
        return "-".join([self.name, *(value for value in self.settings.values() if isinstance(value, str))])

    def make(self, services):
        return get_system(self.name).make_env(self.settings, services)

    def adversary(self, seed):
        """Turns without any sense, more than a trajectory has."""
        rng = random.Random(seed)
        if self.player is doc_v_star:
            return doc_v_star.adversary(rng, 9)
        return list(itertools.islice(self.player.adversary(rng), 14))

    def oracle(self, question, store):
        if self.player is not unidoc_rl:
            return list(self.player.oracle(question))
        # which has to know how large pages are shown
        shown = get_system(self.name).parse_config(self.settings).display.shown
        return list(unidoc_rl.oracle(question, shown(store.document("K").page(3).size)))


VARIANTS = ("paper", "released")
STAR_SAMPLES = [
    {"evidence_pages": (3,), "answers": ("14,250",)},
    {"answers": ("blue", "12", "March 3, 2019"), "answer_format": "list/extractive"},
    {"answers": (), "answerable": False, "evidence_pages": ()},
]
CASES = [
    *(
        Case(alden, {"variant": variant, "modality": modality, **SHARED, **more}, total=7)
        for variant in VARIANTS
        for modality, more in (("visual", {}), ("hybrid", LENIENT))
    ),
    Case(doc_v_star, TIGHT),
    *(Case(doc_v_star, {}, {"extra": {}, **sample}) for sample in STAR_SAMPLES),
    Case(mm_doc_r1),
    *(Case(player, {"variant": variant}, ACROSS) for player in (unidoc_rl, vrag_rl) for variant in VARIANTS),
]


@pytest.fixture(params=CASES, ids=str)
def played(request):
    return request.param


async def test_the_oracle_gets_everything(played, services, store, make_sample, play):
    """Every turn is recorded as JSON; images can be drawn, in the size that was announced."""
    question = make_sample(**played.sample)
    state = await play(played.make(services), question, played.oracle(question, store))
    wanted = {"finished": 1, "invalid_actions": 0, "reward/total": played.total}
    wanted |= {"retrieval_recall": 1} if question.gold_pages else {}
    assert {name: state.metrics[name] for name in wanted} == pytest.approx(wanted)
    for number, result in enumerate(state.results, start=1):
        info = dict(result.info)
        assert json.loads(json.dumps(info, allow_nan=False)) == info
        assert {"action", "valid", "reason", "executed", "effect", "seconds"} <= set(info)
        assert info["turn"] == number
        for image in result.observation.images if result.observation else ():
            assert render(image, store).size == image.size


def told(state):
    """All that a trajectory says, but for the seconds it took."""
    infos = [{**result.info, "seconds": sorted(result.info["seconds"])} for result in state.results]
    results = [(result.observation, result.terms) for result in state.results]
    return json.dumps([infos, state.metrics], allow_nan=False), results


async def test_the_same_turns_lead_to_the_same_trajectory(played, services, make_sample, play):
    """One after the other or all at once, within the limits of the system."""
    question, system = make_sample(**played.sample), get_system(played.name)
    scripts = [played.adversary(seed) for seed in range(8)]
    alone = [await play(played.make(services), question, turns) for turns in scripts]
    together = await asyncio.gather(*(play(played.make(services), question, turns) for turns in scripts))
    assert [told(state) for state in alone] == [told(state) for state in together]
    assert len({told(state)[0] for state in alone}) > 4
    config = system.parse_config(played.settings)
    for state in alone:
        assert state.results[-1].done
        assert len(state.results) <= system.max_turns(config)
        shown = [image for r in state.results if r.observation for image in r.observation.images]
        assert len(shown) <= system.max_images(config)
        paid = [r.terms.reward + sum(term.reward for term in r.terms.tokens) for r in state.results]
        assert sum(paid) == pytest.approx(state.metrics["reward/total"])


async def test_metrics_have_the_same_names_whatever_happens(played, services, store, make_sample, play):
    question = make_sample(**played.sample)
    scripts = [[], ["none"] * 12, played.oracle(question, store), *map(played.adversary, range(3))]
    trajectories = [await play(played.make(services), question, turns) for turns in scripts]
    # what an action of Doc-V* brought is measured where it was used
    names = [[name for name in state.metrics if "/page_" not in name] for state in trajectories]
    assert all(name == names[0] for name in names)
    assert set(trajectories[0].metrics) >= ALWAYS
    values = [value for state in trajectories for value in state.metrics.values()]
    assert all(type(value) is float and math.isfinite(value) for value in values)
