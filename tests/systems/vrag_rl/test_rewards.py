from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.rewards.retrieval import ndcg
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.rewards import VragReward, format_reward


def rule(alpha, beta, gamma, *, gate=False):
    return VragReward(alpha=alpha, beta=beta, gamma=gamma, gate=gate)


def total(rule, retrieval, outcome, fmt):
    return rule.formula.total({"retrieval_ndcg": retrieval, "outcome": outcome, "format": fmt})


PAPER, COLD_START = rule(0.2, 0.8, 0.0), rule(0.2, 0.7, 0.1)
RELEASED = rule(0.2, 0.7, 0.1, gate=True)
RETRIEVAL = ndcg(["M7", "K4", "M1", "Q2"], {"K3", "K4", "M1"})
GROUP_EXAMPLE = ndcg(["K3", "M7"], {"K3", "K4", "M1"})


@pytest.mark.parametrize(
    ("retrieval", "outcome", "searched", "answered", "totals"),
    [
        (RETRIEVAL, 1.0, True, True, (0.906144, 0.906144, 0.906144)),
        (RETRIEVAL, 0.0, True, True, (0.106144, 0.206144, 0.206144)),
        (RETRIEVAL, 0.0, True, False, (0.106144, 0.106144, 0.0)),
        (0.0, 1.0, False, True, (0.8, 0.7, 0.0)),
        (0.0, 0.0, False, False, (0.0, 0.0, 0.0)),
        (GROUP_EXAMPLE, 0.0, True, True, (0.093856, 0.193856, 0.193856)),
    ],
)
def test_the_worked_table(retrieval, outcome, searched, answered, totals):
    fmt = format_reward(searched=searched, answered=answered)
    assert fmt == (searched and answered)
    found = [total(each, retrieval, outcome, fmt) for each in (PAPER, COLD_START, RELEASED)]
    assert found == pytest.approx(totals, abs=1e-6)


def test_the_judge_is_needed_unless_gated():
    opens = [each.formula.opens({"format": fmt}) for each in (PAPER, RELEASED) for fmt in (0.0, 1.0)]
    assert opens == [True, True, False, True]


@pytest.mark.parametrize(
    "weights", [(0.2, 0.2, 0.2), (-0.2, 1.2, 0.0), (float("nan"), 1, 0), (0.5, 0.5, 0.1)]
)
def test_weights_that_make_no_sense(weights):
    with pytest.raises(ValueError, match=str(weights[0])):
        rule(*weights)


def test_the_rules_of_the_variants():
    assert [VragConfig.for_variant(name).reward for name in ("paper", "released")] == [PAPER, RELEASED]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"coords": {"frame": "raw"}}, "coords.frame"),
        ({"search": {"pages_per_search": 11}}, "top_k=10"),
        ({"reward": {"alpha": 0.5}}, r"0\.5"),
        ({"crop": {"pad": -1}}, "crop.pad"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        VragConfig.model_validate(overrides)
