from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview_fit import OverviewFit

CELLS = (256, 228, 200, 172, 144, 116, 88)


def config(fit="sample"):
    return DocVStarConfig.for_variant("paper", overview={"fit": fit})


def best(num_pages, limit, fit="sample"):
    """The first plan of a document that takes no more than `limit` visual tokens."""
    made = config(fit)
    return next((p for p in made.overview.plans(num_pages) if made.plan_tokens(p) <= limit), None)


@given(st.integers(1, 1200), st.integers(12, 9000))
def test_the_best_plan_fits_and_covers_the_document_evenly_and_in_order(num_pages, limit):
    plan = best(num_pages, limit)
    pages = plan.choose(range(1, num_pages + 1))
    assert config().plan_tokens(plan) <= limit
    assert list(pages) == list(range(1, num_pages + 1, plan.stride))
    assert len(pages) == plan.shown
    if plan.stride == 1:
        assert plan.shown == num_pages
    else:
        assert _densest(num_pages, plan.stride - 1) > limit


def _densest(num_pages, stride):
    """Tokens of the smallest thumbnails of one page in `stride`."""
    made = config()
    return min(made.plan_tokens(p) for p in made.overview.plans(num_pages) if p.stride == stride)


@given(st.integers(1, 468), st.integers(200, 9000))
def test_nothing_larger_would_fit(num_pages, limit):
    plan, made = best(num_pages, limit), config()
    before = [other for other in made.overview.plans(num_pages) if _better(other, plan)]
    assert all(made.plan_tokens(other) > limit for other in before)


def _better(one, other):
    return (one.stride, -one.style.cell) < (other.stride, -other.style.cell)


@pytest.mark.parametrize("num_pages", [1, 20, 36, 70])
def test_short_documents_are_shown_as_in_the_paper(num_pages):
    plan = best(num_pages, 6800)
    assert not plan.adapted
    assert (plan.style.cell, plan.stride, plan.style.pages_per_sheet) == (256, 1, 36)
    assert config().plan_tokens(plan) == config("error").overview_tokens(num_pages)


@pytest.mark.parametrize(("num_pages", "cell"), [(83, 228), (120, 172), (160, 144), (300, 116), (468, 88)])
def test_longer_ones_get_smaller_thumbnails(num_pages, cell):
    plan = best(num_pages, 6800)
    assert (plan.style.cell, plan.stride) == (cell, 1)
    assert plan.describe() == f"thumbnails of {cell} px instead of 256"


def test_the_longest_are_sampled():
    plan = best(1200, 6800)
    assert (plan.style.cell, plan.stride, plan.shown) == (88, 3, 400)
    assert plan.describe() == "thumbnails of 88 px instead of 128, one page in 3"
    assert (best(560, 6800).style.cell, best(560, 6800).stride) == (116, 2)


def test_what_may_be_changed_is_a_choice():
    assert best(83, 6800, "error") is None
    assert best(300, 6800, "shrink").style.cell == 116
    assert best(1200, 6800, "shrink") is None
    assert {plan.style.cell for plan in config("shrink").overview.plans(400)} == set(CELLS)
    assert config().overview.fit is OverviewFit.SAMPLE


def test_a_plan_knows_its_images():
    plan = best(83, 9000)
    assert plan.sizes == [(1536, 1680), (1536, 1680), (768, 1120)]
    assert plan.sheets == 3
