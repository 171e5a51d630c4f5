"""All systems are played by an oracle and by an adversary, and rewards are compared with the
formulas.
"""

import functools
import math
import random

import pytest

from docagent_rl.envs.base import EndReason
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.envs.token_budget import estimated_tokens
from tests.players.alden import Alden
from tests.players.attacks import attacks, missed, sealed
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
    for sample in library.questions:
        turns, wanted = rules.best(library, sample)
        state = await play(rules.make(rules.knowing(services, sample)), sample, turns)
        check(state, rules.limits)
        assert state.pay == pytest.approx(wanted)
        assert state.metrics["reward/total"] == pytest.approx(sum(wanted))


@pytest.fixture
def hostile_services(hostile, clerk):
    """Cache counts of texts, since most texts are counted many times."""
    count = functools.cache(estimated_tokens)
    return EnvServices(
        hostile.store, RetrieverService(hostile.retriever), clerk, count_tokens=count
    )


@pytest.mark.parametrize("rules", [*RULES, DocVStar(tight=True)], ids=str)
async def test_the_adversary_gets_nothing_by_text(hostile, hostile_services, clerk, rules):
    """The adversary writes attacks that contain the right answer on pages that name it, and turns
    without any sense.
    """
    ends, played, number_of_attacks = set(), [], len(attacks(rules.voice, LIE))
    for number, sample in enumerate(hostile.questions):
        rng, secret = random.Random(number), rules.secret(sample)
        good = rules.good_calls(hostile, sample)
        mine = range(number, number_of_attacks, len(hostile.questions))
        scripts = [(True, sealed(rng, rules.voice, secret, good, n)) for n in mine]
        for is_sealed, script in [*scripts, (False, rules.wild(rng))]:
            clerk.asked.clear()
            state = await play(rules.make(hostile_services), sample, script)
            check(state, rules.limits)
            said = rules.answer(state.turns[-1])
            assert (state.results[-1].end is EndReason.ANSWERED) is (said is not None)
            assert not (is_sealed and said is not None)
            assert clerk.asked in ([], [said])
            right = await clerk.judge("", sample.answers or (secret,), said) if clerk.asked else 0.0
            rules.audit(state, hostile, said, right)
            ends.add(state.results[-1].end)
            played += state.turns
    assert not missed(rules.voice, (LIE, rules.refusal), played)
    assert ends == rules.ends


@pytest.mark.parametrize("rules", [*RULES, DocVStar(tight=True)], ids=str)
async def test_every_trajectory_has_the_same_metrics(library, services, rules):
    question = library.questions[0]
    scripts = [["none"] * 14, *(list(rules.wild(random.Random(seed))) for seed in range(8))]
    unplayed = rules.make(services)
    await unplayed.reset(question)
    played = [await play(rules.make(services), question, turns) for turns in scripts]
    numbers = [unplayed.metrics(), *(state.metrics for state in played)]
    # what an action of Doc-V* brought is measured where it was used
    names = [[name for name in metrics if "/page_" not in name] for metrics in numbers]
    assert all(each == names[0] for each in names)
    assert set(names[0]) >= {
        "turns",
        "finished",
        "invalid_action_rate",
        "pages_seen",
        "context_full",
    }
    values = [value for metrics in numbers for value in metrics.values()]
    assert all(type(value) is float and math.isfinite(value) for value in values)
