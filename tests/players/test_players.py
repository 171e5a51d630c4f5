"""All systems by an oracle and by an adversary, and what their formulas make of either."""

from __future__ import annotations

import dataclasses
import functools
import random

import pytest

from docagent_rl.envs.base import EndReason
from docagent_rl.envs.token_budget import estimated_tokens
from tests.players.alden import Alden
from tests.players.attacks import missed, sealed
from tests.players.corpus import LIE
from tests.players.doc_v_star import DocVStar
from tests.players.mm_doc_r1 import MMDoc
from tests.players.referee import check, play
from tests.players.unidoc_rl import UniDoc
from tests.players.vrag_rl import Vrag

VARIANTS = ("paper", "released")
RULES = [
    *(Alden(variant, modality) for variant in VARIANTS for modality in ("visual", "hybrid")),
    DocVStar(),
    MMDoc(),
    *(UniDoc(variant) for variant in VARIANTS),
    *(Vrag(variant) for variant in VARIANTS),
]


@pytest.mark.parametrize("rules", RULES, ids=str)
async def test_the_oracle_gets_the_maximum(library, services, rules):
    for record in library.questions:
        turns, wanted = rules.best(library, record)
        game = await play(rules.make(rules.knowing(services, record)), record, turns)
        check(game, rules.limits)
        assert game.pay == pytest.approx(wanted)
        assert game.metrics["reward/total"] == pytest.approx(sum(wanted))


@pytest.fixture
def quick_services(hostile_services):
    """Most texts are counted many times over."""
    return dataclasses.replace(hostile_services, count_tokens=functools.cache(estimated_tokens))


@pytest.mark.parametrize("rules", [*RULES, DocVStar(tight=True)], ids=str)
async def test_the_adversary_gets_nothing_by_text(hostile, quick_services, clerk, rules):
    """Attacks that hold the right answer on pages that name it, and turns without any sense."""
    ends, played = set(), []
    for number, record in enumerate(hostile.questions):
        rng, secret = random.Random(number), rules.secret(record)
        good = rules.good_calls(hostile, record)
        scripts = [(True, sealed(rng, rules.voice, secret, good, 2 * number + n)) for n in range(2)]
        for is_sealed, script in [*scripts, (False, rules.wild(rng))]:
            clerk.asked.clear()
            game = await play(rules.make(quick_services), record, script)
            check(game, rules.limits)
            said = rules.answer(game.turns[-1])
            assert (game.results[-1].end is EndReason.ANSWERED) is (said is not None)
            assert not (is_sealed and said is not None)
            assert clerk.asked in ([], [said])
            right = await clerk.judge("", record.answers or (secret,), said) if clerk.asked else 0.0
            rules.audit(game, hostile, said, right)
            ends.add(game.results[-1].end)
            played += game.turns
    assert not missed(rules.voice, LIE, played)
    assert ends == rules.ends
