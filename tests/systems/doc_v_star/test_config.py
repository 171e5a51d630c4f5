from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.answer_rule import AnswerRule, Gold, GoldForm
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.rewards import DocVStarReward, evidence_score, format_score

PAPER = DocVStarConfig()


@pytest.mark.parametrize(
    ("num_pages", "k"),
    [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (30, 3), (31, 4), (83, 4), (468, 4)],
)
def test_pages_of_a_retrieval(num_pages, k):
    assert PAPER.retrieval.k(num_pages) == k


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        ({}, 7 * 4),
        ({"retrieval": {"pages": 5}}, 7 * 5),
        ({"retrieval": {"pages": 5, "enabled": False}}, 7 * 4),
        ({"retrieval": {"pages": 2}, "fetch": {"enabled": False}}, 7 * 2),
    ],
)
def test_images_and_their_tokens(overrides, images):
    config = DocVStarConfig(**overrides)
    assert (config.max_images, config.max_image_tokens) == (images, images * 999)
    if pages := config.retrieval.pages:
        assert config.retrieval.k(1) == config.retrieval.k(468) == pages


def rule(answer=0.6, evidence=0.3, format=0.1):
    return DocVStarReward(answer=answer, evidence=evidence, format=format, beta2=2.0)


def total(rule, *terms):
    return rule.formula.total(dict(zip(("answer", "evidence", "format"), terms, strict=True)))


RULE = AnswerRule()
NOBODY_KNOWS = Gold(GoldForm.ABSTENTION)


def said(text):
    return Gold(GoldForm.VARIANTS, (text,))


@pytest.mark.parametrize(
    ("gold", "answer", "evidence", "listed", "visited", "good", "parts", "reward"),
    [
        (said("Bureau of Standards"), "Bureau of Standard", {7, 8}, {7, 8, 15, 22}, {7, 8, 15, 22},
        True,
         (18 / 19, 0.75, 1), 0.8934),
        (said("14,250"), "14,350", {9}, {9}, {9}, True, (0, 1, 1), 0.4),
        (said("x"), None, {5, 6, 11}, {3, 5}, {3, 5}, True, (0, 0.375, 0), 0.1125),
        (NOBODY_KNOWS, "Not answerable", set(), set(), {1}, True, (1, 1, 1), 1.0),
        (NOBODY_KNOWS, "Not answerable", set(), {1}, {1}, True, (1, 0, 1), 0.7),
        (said("x"), "x", {1}, {1}, {1}, False, (1, 1, 0), 0.9),
    ],
)  # fmt: skip
def test_the_worked_table(gold, answer, evidence, listed, visited, good, parts, reward):
    r_a = RULE.score(answer, gold)
    r_e = evidence_score(listed, evidence, visited)
    r_f = format_score(obeyed=good, answered=answer is not None)
    assert (r_a, r_e, r_f) == pytest.approx(parts)
    assert total(rule(), r_a, r_e, r_f) == pytest.approx(reward, abs=5e-5)


def slow_f_score(listed, gold, visited, beta2):
    """Compute precision and recall as printed in the paper, without its small constant."""
    hits = len(listed & gold & visited)
    if not hits:
        return float(listed == gold == set())
    precision, recall = Fraction(hits, len(listed)), Fraction(hits, len(gold))
    return float((1 + beta2) * precision * recall / (beta2 * precision + recall))


pages = st.sets(st.integers(1, 8))


@given(
    pages,
    pages,
    pages | st.just(set(range(9))),
    st.sampled_from([Fraction(1), Fraction(2), Fraction(1, 2)]),
)
def test_the_closed_form_is_the_f_score(listed, gold, visited, beta2):
    score = evidence_score(listed, gold, visited, beta2=float(beta2))
    assert score == pytest.approx(slow_f_score(listed, gold, visited, beta2))
    assert 0 <= score <= 1
