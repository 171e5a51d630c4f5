"""MADQA's numbers, by hand and by slow versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.judges import Grade
from docagent_rl.lab.eval.metrics.madqa import anls_star, hop, kuiper, semantic_score, wasted_effort
from tests.lab.eval.metrics import slow


@pytest.mark.parametrize(
    ("variants", "pred", "score"),
    [
        ([["Oslo"]], [" OSLO "], 1.0),
        ([["Rome"], ["Oslo"]], ["Oslp"], 0.75),
        ([["abcd"]], ["abxy"], 0.5),  # one half is kept
        ([["abcd"]], ["axyz"], 0.0),
        ([["a", "b", "c"]], ["c", "a"], 2 / 3),
        ([["a"]], ["a", "b"], 0.5),
        ([["a", "b"], ["a and b"]], ["a and b"], 1.0),
        # lengths are of normalised texts
        ([["ab   cd"]], ["ab xx"], 0.6),
        ([["a"]], [], 0.0),
        ([], ["a"], 0.0),
        ([[]], ["a"], 0.0),
    ],
)
def test_anls_star(variants, pred, score):
    assert anls_star(variants, pred) == pytest.approx(score)


TEXTS = st.lists(st.text("aAb ", max_size=4), max_size=4)


@given(st.lists(TEXTS, max_size=3), TEXTS)
def test_anls_star_is_the_slow_one(variants, pred):
    assert anls_star(variants, pred) == pytest.approx(slow.anls_star(variants, pred))


@pytest.mark.parametrize(
    ("similarity", "grade", "pred", "score"),
    [
        (0.4, Grade.CORRECT, "x", 1.0),
        (0.4, Grade.PARTIAL, ["x", "y"], 0.5),
        (0.9, Grade.INCORRECT, "x", 0.0),
        (0.9, None, "x", 0.0),
        (1.0, Grade.INCORRECT, "x", 1.0),  # nobody is asked
        (0.4, Grade.CORRECT, "", 0.0),
        (0.4, Grade.CORRECT, ["", ""], 0.0),
        (0.4, Grade.CORRECT, "x" * 1998, 1.0),
        (0.4, Grade.CORRECT, "x" * 1999, 0.0),  # with its quotation marks
        (1.0, Grade.CORRECT, ["x" * 1997], 0.0),
    ],
)
def test_the_score_of_a_grade(similarity, grade, pred, score):
    assert semantic_score(similarity, grade, pred) == score


@pytest.mark.parametrize(
    ("pages", "kind"),
    [
        ([], "single"),
        ([("a", 1)], "single"),
        ([("a", 1), ("a", 1)], "single"),
        ([("a", 1), ("a", 2)], "cross_page"),
        ([("a", 1), ("b", 1)], "cross_doc"),
    ],
)
def test_kinds_of_questions(pages, kind):
    assert hop(pages) == kind


def test_effort_by_hand():
    # right answers come first: the sums are 0.5, 1, 0.5, 0
    assert kuiper([(4, False), (1, True), (2, True), (3, False)]) == pytest.approx(1.0)
    # they alternate: 0.5, 0, 0.5, 0
    assert kuiper([(1, True), (2, False), (3, True), (4, False)]) == pytest.approx(0.5)
    # one without steps is left out; equal steps keep their order
    assert kuiper([(0, False), (1, True), (1, False)]) == pytest.approx(0.5)
    assert kuiper([(1, True), (2, True)]) is kuiper([(1, False)]) is kuiper([]) is None
    assert wasted_effort([(2, True), (4, True), (6, False), (0, False)]) == pytest.approx(2.0)
    assert wasted_effort([(2, False)]) is None
    assert wasted_effort([(2, True)]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12))
def test_the_kuiper_statistic_is_the_slow_one(played):
    wanted = slow.kuiper(played)
    assert kuiper(played) == (None if wanted is None else pytest.approx(wanted))
