"""Verdicts and the answers that are judged, with the tags that they stand in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.judged import (
    PLEA,
    Accuracy,
    is_judged,
    judged_accuracy,
    judged_answer,
    parse_bool_judge,
)
from docagent_rl.eval.metrics.tags import first_tag, last_tag


@pytest.mark.parametrize(
    ("reply", "vrag", "unidoc"),
    [
        ("<judge>True</judge>", True, True), ("<judge>TRUE</judge>", None, True),
        ("<judge>False, not True</judge>", True, True), ("<judge>untrue</judge>", True, True),
        ("<judge>maybe</judge>", None, False), ("Judge: True", None, False),
    ],
)  # fmt: skip
def test_replies_of_judges(reply, vrag, unidoc):
    assert (parse_bool_judge(reply, "vrag"), parse_bool_judge(reply, "unidoc")) == (vrag, unidoc)


def test_an_unknown_flavour_is_refused():
    with pytest.raises(ValueError, match="other"):
        parse_bool_judge("<judge>True</judge>", "other")


def test_whether_a_search_is_required_can_be_said():
    one = "<answer>a</answer>"
    assert is_judged(one, "unidoc")
    assert is_judged(one, "vrag", require_search=False)
    assert not is_judged(one, "unidoc", require_search=True)


def test_accuracy_counts_failures_as_wrong():
    assert judged_accuracy([True, False, None, True]) == Accuracy(0.5, 4, 1)
    assert judged_accuracy([]) == Accuracy(0.0, 0, 0)


PIECES = ["<judge>", "</judge>", "true", "TRUE", "True", "False", "fAlse", "un", "\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_verdicts_equal_the_slow_reading(reply):
    """Both flavours, by expressions over the whole reply."""
    found = re.search("<judge>(.*?)</judge>", reply, re.DOTALL)
    vrag = None
    if found and re.search("[tT]rue", found[1]):
        vrag = True
    elif found and re.search("[fF]alse", found[1]):
        vrag = False
    assert parse_bool_judge(reply, "vrag") is vrag
    assert parse_bool_judge(reply, "unidoc") is bool(found and re.search("true", found[1], re.IGNORECASE))


TAGS = ["<answer>", "</answer>", "<search>", "</search>", "x", "\n"]


@given(st.lists(st.sampled_from(TAGS), max_size=8).map("".join))
def test_what_is_judged_equals_the_slow_reading(response):
    first = re.search(r"<answer>(.*?)</answer>", response, re.DOTALL)
    assert first_tag(response, "answer") == (first and first[1])
    last = re.search(r".*<answer>(.*?)</answer>(?!.*</answer>)", response, re.DOTALL)
    assert last_tag(response, "answer") == (last and last[1])
    assert judged_answer(response) == (last[1] if last else PLEA)
    both = all(re.search(f"<{name}>.*</{name}>", response, re.DOTALL) for name in ("answer", "search"))
    assert is_judged(response, "vrag") is both


def test_many_open_tags_take_no_time():
    assert first_tag("<a>" * 500_000, "a") is last_tag("<a>" * 500_000, "a") is None
