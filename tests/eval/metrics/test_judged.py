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


@pytest.mark.parametrize(
    ("reply", "vrag", "unidoc"),
    [
        ("<judge>True</judge>", True, True), ("<judge>TRUE</judge>", None, True),
        ("<judge>False, not True</judge>", True, True), ("<judge>untrue</judge>", True, True),
        ("<judge>maybe</judge>", None, False), ("Judge: True", None, False),
        # further edges of the same rules
        ("<judge>False</judge>", False, False), ("<judge>FALSE</judge>", None, False), ("", None, False),
        ("<judge>False</judge><judge>True</judge>", False, False), ("<judge>\ntrue\n</judge>", True, True),
        ("<judge>True", None, False),
    ],
)  # fmt: skip
def test_replies_of_judges(reply, vrag, unidoc):
    assert (parse_bool_judge(reply, "vrag"), parse_bool_judge(reply, "unidoc")) == (vrag, unidoc)


def test_an_unknown_flavour_is_refused():
    with pytest.raises(ValueError, match="other"):
        parse_bool_judge("<judge>True</judge>", "other")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("<answer>12 <answer>13</answer>", "13"), ("<answer>1</answer> <answer>2</answer>", "2"),
        ("<answer>1</answer> <answer>2", "1"), ("", PLEA), ("<answer>1", PLEA), ("<answer></answer>", ""),
    ],
)  # fmt: skip
def test_the_answer_that_is_judged(response, answer):
    assert judged_answer(response) == answer


def test_vrag_judges_only_responses_with_search_and_answer():
    both, one = "<search>q</search><answer>a</answer>", "<answer>a</answer>"
    assert is_judged(both, "vrag")
    assert not is_judged(one, "vrag")
    assert not is_judged("<search>q</search>", "vrag")
    assert is_judged(one, "unidoc")
    assert is_judged(one, "vrag", require_search=False)
    assert not is_judged(one, "unidoc", require_search=True)


def test_accuracy_counts_failures_as_wrong():
    assert judged_accuracy([True, False, None, True]) == Accuracy(0.5, 4, 1)
    assert judged_accuracy([]) == Accuracy(0.0, 0, 0)


PIECES = ["<judge>", "</judge>", "true", "TRUE", "True", "False", "fAlse", "un", "\n"]


def slow_judge(reply: str) -> tuple[bool | None, bool]:
    """Both flavours, by expressions over the whole reply."""
    found = re.search("<judge>(.*?)</judge>", reply, re.DOTALL)
    if found is None:
        return None, False
    vrag = None
    if re.search("[tT]rue", found[1]):
        vrag = True
    elif re.search("[fF]alse", found[1]):
        vrag = False
    return vrag, re.search("true", found[1], re.IGNORECASE) is not None


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_verdicts_equal_the_slow_reading(reply):
    assert (parse_bool_judge(reply, "vrag"), parse_bool_judge(reply, "unidoc")) == slow_judge(reply)


TAGS = ["<answer>", "</answer>", "<search>", "</search>", "x", "\n"]


@given(st.lists(st.sampled_from(TAGS), max_size=8).map("".join))
def test_what_is_judged_equals_the_slow_reading(response):
    end = response.rfind("</answer>")
    start = response.rfind("<answer>", 0, end) if end >= 0 else -1
    assert judged_answer(response) == (response[start + 8 : end] if start >= 0 else PLEA)
    both = all(re.search(f"<{name}>.*</{name}>", response, re.DOTALL) for name in ("answer", "search"))
    assert is_judged(response, "vrag") is both
