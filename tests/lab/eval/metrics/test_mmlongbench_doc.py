from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.mmlongbench_doc import (
    FAILED,
    mmlongbench_lines,
    mmlongbench_score,
)
from tests.lab.eval.metrics import slow

NA = "Not answerable"


@pytest.mark.parametrize(
    ("gold", "pred", "kind", "expected"),
    [
        (41, 41.0, "Int", 1.0), ("1,860", "1860", "Int", 0.0), ("0.635", 63.5, "Float", 1.0),
        ("63.5%", "64.1", "Float", 1.0), ("63.5%", "64.2", "Float", 0.0),
        ("Lake Ontario", "Lake Ontaro", "Str", 0.9167), ("Lake Ontario", "Ontario Lake", "Str", 0.0),
        (NA, "Not answerable.", "None", 0.9333), (NA, "unanswerable", "None", 0.7143),
        ("['teal', 'ochre']", "['Ochre', 'Teal']", "List", 1.0),
        ("['teal', 'ochre']", "['teal', 'ochra']", "List", 0.8), ("['3', '11']", "[11.0, 3]", "List", 0.0),
        ("['a', 'b']", "['a', 'b']", "something else", 1.0),
        ("x", None, "Str", 0.0), (FAILED, FAILED, "Str", 0.0), ("ßa", "ßb", "Str", 0.6667),
    ],
)  # fmt: skip
def test_worked_examples(gold, pred, kind, expected):
    assert mmlongbench_score(gold, pred, kind) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("pages", "sources", "kind", "answerable", "lines"),
    [
        (
            1,
            ("Table", "Chart"),
            "Report",
            True,
            ["single_page", "source/Chart", "source/Table", "type/Report"],
        ),
        (2, ("Table", "Table"), None, True, ["cross_page", "source/Table"]),
        (0, (), "Guide", True, ["cross_page", "type/Guide"]),  # answerable, nobody wrote pages down
        (1, (), None, False, ["single_page", "unanswerable"]),
        (0, (), None, False, ["unanswerable"]),
    ],
)
def test_single_cross_and_unanswerable(pages, sources, kind, answerable, lines):
    assert mmlongbench_lines(pages, sources, kind, answerable=answerable) == lines


def slow_clean(value: object) -> str:
    return slow.tail(str(value).lower().strip(), pound=False)


def slow_items(text: str) -> list[str] | None:
    value = text
    if text[:1] == "[":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return None
    return sorted(slow_clean(item) for item in (value if type(value) is list else [value]))


def slow_score(gold: str, pred: str, kind: str) -> float:
    """Section 2 of the specification, rule by rule."""
    if kind == "Int":
        try:
            return float(int(gold) == int(float(pred)))
        except (ValueError, OverflowError):
            return float(gold == "")
    if kind == "Float":
        return slow.numbers(slow_clean(gold), slow_clean(pred))
    if kind in ("Str", "None"):
        return slow.texts(slow_clean(gold), slow_clean(pred))
    wanted, given = slow_items(gold), slow_items(pred)
    if not wanted or given is None or len(wanted) != len(given):
        return 0.0
    if slow.number(wanted[0]) is not None or slow.exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    return min(slow.upper_anls(a, b) for a, b in zip(wanted, given, strict=True))


WORDS = st.text(st.sampled_from("abcß ('\")$%-,.12"), max_size=8)
TEXTS = st.one_of(
    WORDS,
    st.sampled_from(["page 3", "x.py", "9 a.m.", "2020-01", "12 34", "a@b.cd", "50%", "0.5", "1e-05", "inf"]),
    st.floats(-1e4, 1e4).map(str),
    st.integers(-300, 300).map(str),
    st.lists(st.one_of(WORDS, st.integers(-9, 99)), max_size=3).map(repr),
)
KINDS = st.sampled_from(["Int", "Float", "Str", "None", "List"])


@given(TEXTS, TEXTS, KINDS)
def test_equals_the_slow_reading(gold, pred, kind):
    assert mmlongbench_score(gold, pred, kind) == pytest.approx(slow_score(gold, pred, kind), abs=1e-12)
