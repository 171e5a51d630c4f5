from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview_fit import OverviewFit

CONFIGS = {fit: DocVStarConfig(overview={"fit": fit}) for fit in OverviewFit}
SAMPLE = CONFIGS["sample"]
CELLS = (256, 228, 200, 172, 144, 116, 88)


def best(num_pages, limit, fit="sample"):
    """The first plan of a document that takes no more than `limit` visual tokens."""
    config = CONFIGS[fit]
    return next((p for p in config.overview.plans(num_pages) if config.plan_tokens(p) <= limit), None)


def rank(plan):
    """The fewest pages left out, then the largest thumbnails."""
    return plan.stride, -plan.style.cell


@settings(max_examples=20)
@given(st.integers(1, 468), st.integers(12, 9000))
def test_the_best_plan_fits_nothing_larger_does_and_it_covers_the_document_evenly(num_pages, limit):
    plan = best(num_pages, limit)
    assert SAMPLE.plan_tokens(plan) <= limit
    for other in SAMPLE.overview.plans(num_pages):
        if other.stride > plan.stride:
            break
        assert rank(other) >= rank(plan) or SAMPLE.plan_tokens(other) > limit
    pages = plan.choose(range(1, num_pages + 1))
    assert list(pages) == list(range(1, num_pages + 1, plan.stride))
    assert len(pages) == plan.shown


@pytest.mark.parametrize(
    ("num_pages", "cell", "stride", "described"),
    [
        *((num_pages, 256, 1, None) for num_pages in (1, 20, 36, 70)),
        (83, 228, 1, "228 px instead of 256"),
        (120, 172, 1, "172 px instead of 256"),
        (160, 144, 1, "144 px instead of 256"),
        (300, 116, 1, "116 px instead of 256"),
        (468, 88, 1, "88 px instead of 256"),
        (560, 116, 2, "116 px instead of 192, one page in 2"),
        (1200, 88, 3, "88 px instead of 128, one page in 3"),
    ],
)
def test_what_fits_6800_tokens(num_pages, cell, stride, described):
    plan = best(num_pages, 6800)
    assert (plan.style.cell, plan.stride, plan.shown) == (cell, stride, -(-num_pages // stride))
    assert plan.adapted == bool(described)
    assert plan.describe().endswith(described or "256 px")
    if not described:
        assert plan.style.pages_per_sheet == 36
        assert SAMPLE.plan_tokens(plan) == CONFIGS["error"].overview_tokens(num_pages)


@pytest.mark.parametrize(
    ("num_pages", "fit", "cell"), [(83, "error", None), (300, "shrink", 116), (1200, "shrink", None)]
)
def test_what_may_be_changed_is_a_choice(num_pages, fit, cell):
    plan = best(num_pages, 6800, fit)
    assert (plan and plan.style.cell) == cell


def test_plans():
    assert {plan.style.cell for plan in CONFIGS["shrink"].overview.plans(400)} == set(CELLS)
    plan = best(83, 9000)
    assert (plan.sizes, plan.sheets) == ([(1536, 1680), (1536, 1680), (768, 1120)], 3)
