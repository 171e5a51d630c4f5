"""The score of answers that are given without reading the document."""

from pathlib import Path

import pytest

from docagent_rl.rewards.retrieval import ndcg
from docagent_rl.systems.doc_v_star.rewards import evidence_score
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.vrag_rl import rewards as vrag_rl
from tests.rewards.document_free import KINDS, METRICS, SEED, STEPS, best_text, free_table

PAGE = Path(__file__).parents[2] / "docs" / "rule_judge.md"


@pytest.mark.slow
def test_the_best_text_of_every_metric_is_worth_what_the_page_says():
    found = [
        best_text(metric, kind, steps=STEPS, seed=SEED) for metric in METRICS for kind in KINDS
    ]
    assert free_table(found) in PAGE.read_text(encoding="utf-8")
    for each in found:
        if each.metric in ("judge `rule`", "judge `exact`"):
            assert each.score <= each.commonest, each


def test_other_terms_are_nothing_without_a_page():
    gold = {1}
    wanted = {1: [(0, 0, 9, 9)]}
    terms = [
        ndcg((), gold),
        evidence_score((), gold),
        MMDocConfig.for_variant().reward.page_score((), gold, 1.0),
    ]
    for variant in ("paper", "released"):
        rule = UniDocConfig.for_variant(variant).reward
        values = rule.terms([], gold, wanted, fmt=1.0, outcome=1.0, implicit=variant == "released")
        terms += [values[name] for name in ("search_ndcg", "select", "roi")]
    assert [*terms, vrag_rl.format_reward(searched=False, answered=True)] == [0] * 10
