"""The part of its document that a question is played on."""

import pytest

from docagent_rl.samples.window import played_length, window_of


@pytest.mark.parametrize(
    ("given", "window", "length"),
    [
        ([41, 60], range(41, 61), 20),
        ((3, 3), range(3, 4), 1),
        (None, None, 261),
        # malformed ones are refused when the question is played
        ([0, 3], None, 261),
        ([3, 2], None, 261),
        ([1.0, 2], None, 261),
        ([True, 2], None, 261),
        ("41-60", None, 261),
        ([1, 2, 3], None, 261),
    ],
)
def test_a_window_is_its_first_and_its_last_page(given, window, length):
    extra = {"window": given, "num_pages": 261}
    assert window_of(extra) == window
    assert played_length(extra) == length


def test_the_first_page_alone_is_a_window_and_one_page_a_length():
    assert window_of({"window": [1, 1]}) == range(1, 2)
    assert played_length({"num_pages": 1}) == 1


@pytest.mark.parametrize("pages", [None, 0, "5", True])
def test_a_length_that_nobody_gave_is_unknown(pages):
    assert played_length({"num_pages": pages}) is None
    assert played_length({"num_pages": pages, "window": [2, 3]}) == 2


def test_evidence_outside_the_window_is_labelled_and_not_gold(make_sample):
    sample = make_sample(
        doc_id="R",
        evidence_pages=(1, 4),
        extra={"window": [2, 5], "page_ids": ["R#1", "R#4", "S#1"]},
    )
    assert sample.labelled_pages == {("R", 1), ("R", 4), ("S", 1)}
    # pages of other documents have no window
    assert sample.gold_pages == {("R", 4), ("S", 1)}
