"""The generalised accuracy of MMLongBench-Doc and LongDocURL, compared with a slow version."""

import ast
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.accuracy import (
    FAILED,
    NOT_EXTRACTED,
    longdocurl_clean,
    longdocurl_inline,
    longdocurl_lines,
    longdocurl_parse,
    longdocurl_score,
    mmlongbench_lines,
    mmlongbench_score,
)
from tests.lab.eval.metrics import slow

NA = "Not answerable"


def reply(text: str) -> str:
    return f"<concise_answer>{text}</concise_answer><answer_format>x</answer_format>"


@pytest.mark.parametrize(
    ("gold", "pred", "kind", "expected"),
    [
        (18, "18 kg", "Integer", 1.0), (18, "$18", "Integer", 1.0), (18, 18.0, "Integer", 0.0),
        (2325, [2, 325], "Integer", 0.0), (2325, "2,325", "Integer", 1.0),
        (4.2, "4.2 million", "Float", 1.0), (4.2, "4.24", "Float", 1.0), (4.2, "4.25", "Float",
        0.0),
        ("4.2%", 0.042, "Float", 1.0),
        ("Harbour Team", "harbor tea", "String", 0.9091), ("Harbour Team", "Harbour", "String",
        0.6364),
        ("2020-2021", -1, "String", 0.0),
        (["Annex A", "Annex B"], ["Annex B", "Annex A"], "List", 1.0),
        (["Annex A", "Annex B"], ["Annex B"], "List", 0.9286),
        (["Annex A", "Annex B"], ["Annex A", "Annex B", "Foreword", "Index"], "List", 0.7071),
        (["4", "9"], ["9", "4"], "List", 0.0), (["4", "9"], [4, 9], "List", 1.0),
        (["4", "9"], (4, 9), "List", 0.0),  # a tuple is one item before it is JSON
        # what the scorer does at the edges
        ("", "x", "Integer", 1.0), ("x", "x", "Integer", 0.0),
        ([], ["a"], "List", 0.0), (["a"], [], "List", 0.0), ("['ab', 'cd'", "['ab', 'cd'", "List",
        1.0),
        (["ab-cd"], [{"k": "ab", "l": "cd"}], "List", 1.0), ([{"k": 1, "l": 2}], ["1-2"], "List",
        1.0),
        (["ab"], [{"k": "ab"}, "ab"], "List", 0.0), (["ab", "cd"], ("ab", "cd"), "List", 0.0),
        (FAILED, FAILED, "String", 0.0), (NA, NA, "None", 1.0), (1.5, float("nan"), "Float", 0.0),
        # a number loses its percent signs twice
        (4, "4 % %", "Float", 1.0), (4, "4 % % %", "Float", 0.0), (4, "4 % %", "Integer", 0.0),
    ],
)  # fmt: skip
def test_worked_examples_and_edges(gold, pred, kind, expected):
    assert longdocurl_score(gold, pred, kind) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("12 kg", "12"), ("3.2 million", "3.2"), ("Stockholm", "stockhol"), ("5 parameters",
        "5 para"),
        ("bookkg", "boo"), ("Stockholmillion", "stockh"), ("£ 1,200", "1200"), ("$£5%", "5"),
        ("10 acres (net)", "10 acres"), (None, "none"),
    ],
)  # fmt: skip
def test_cleaning(raw, cleaned):
    assert longdocurl_clean(raw) == cleaned


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2,325", [2, 325]), ("2020-2021", -1), ("{'a'}", ["a"]), ("{1: (2, 3)}", {"1": [2, 3]}),
        ("__import__('os')", "__import__('os')"), ("1j", "1j"), ("[{1}]", "[{1}]"),
        ("{(1, 2): 3}", "{(1, 2): 3}"), (" a b ", " a b "), ("2 or list", 2), ("'a' + 'b'",
        "'a' + 'b'"),
        ("((10 ** 64) ** 4) ** "
         "64", "((10 ** 64) ** 4) ** 64"), ("1</concise_answer><concise_answer>2", 1),
    ],
)  # fmt: skip
def test_replies_are_read_as_the_headline_script_reads_them_back(text, value):
    assert longdocurl_parse(reply(text)) == value
    assert type(longdocurl_parse(reply(text))) is type(value)


@pytest.mark.parametrize(
    "text",
    ["", "18", "<concise_answer>18</concise_answer>",
    "<concise_answer>18<answer_format>a</answer_format>",
     "<answer_format>Integer</answer_format>",
     "</concise_answer><concise_answer><answer_format></answer_format>"],
)  # fmt: skip
def test_replies_without_both_tags_fail(text):
    assert longdocurl_parse(text) == longdocurl_inline(text) == FAILED


UNITS = [
    "kg",
    "mm",
    "m",
    "meters",
    "acres",
    "minutes",
    "mile",
    "miles",
    "million",
    "thousand",
    "billion",
]


def slow_clean(value: object) -> str:
    text = str(value).lower().strip().replace(",", "")
    for unit in UNITS:
        if text.endswith(unit):
            while text and text[-1] in unit:
                text = text[:-1]
            text = text.strip()
    return slow.tail(text, pound=True)


def slow_items(value: object) -> list[object]:
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return [value]
    return value if type(value) is list else [value]


def slow_score(gold: object, pred: object, kind: str) -> float:
    """Apply section 3 of the specification, rule by rule."""
    if kind == "Integer":
        wanted: object = slow_clean(gold)
        given: object = slow_clean(pred)
        try:
            given = int(given)
        except ValueError:
            given = ""
        with contextlib.suppress(ValueError):
            wanted = int(wanted)
        return float(wanted == given)
    if kind == "Float":
        return slow.numbers(*(slow_clean(value).rstrip("%").strip() for value in (gold, pred)))
    if kind in ("String", "None"):
        return slow.texts(slow_clean(gold), slow_clean(pred))
    golds, preds = slow_items(gold), slow_items(pred)
    if not golds or not preds:
        return 0.0
    wanted, given = [slow_clean(item) for item in golds], [slow_clean(item) for item in preds]
    if slow.number(wanted[0]) is not None or slow.exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    total = 0.0
    for item in wanted:
        total += max(slow.upper_anls(item, other) for other in given)
    return total / len(wanted) * min(1, len(wanted) / len(given)) ** 0.5


WORDS = st.one_of(
    st.text(st.sampled_from("abcß ('\")$£%-,.12mk"), max_size=8),
    st.tuples(
        st.sampled_from(["12", "a", "Stockhol"]), st.sampled_from(["", " "]), st.sampled_from(UNITS)
    ).map("".join),
)
VALUES = st.one_of(
    WORDS,
    st.tuples(st.sampled_from(["4", "35.7"]), st.text("% ", max_size=4)).map("".join),
    st.floats(-1e4, 1e4),
    st.integers(-300, 300),
    st.none(),
    st.lists(st.one_of(WORDS, st.integers(-9, 99)), max_size=3),
    st.lists(st.one_of(WORDS, st.integers(-9, 99)), max_size=3).map(repr),
)
KINDS = st.sampled_from(["Integer", "Float", "String", "None", "List"])


@given(VALUES, VALUES, KINDS)
def test_equals_the_slow_reading(gold, pred, kind):
    assert longdocurl_score(gold, pred, kind) == pytest.approx(
        slow_score(gold, pred, kind), abs=1e-12
    )


@pytest.mark.parametrize(
    ("task", "pages", "sources", "kind", "lines"),
    [
        ("Understanding", 1, ("Text", "Others"), "other",
         ["Understanding, single_page, Text", "cross_element", "single_page", "source/Text",
          "task/Understanding"]),
        ("Reasoning", 2, ("Table",), "summary2tab",
         ["Reasoning, multi_page, Table", "multi_page", "source/Table", "task/Reasoning"]),
        ("Reasoning", 0, ("Table",), None, ["source/Table", "task/Reasoning"]),
        *(("Locating", 0, (), kind, [f"Locating, {line}", "task/Locating"]) for kind, line in (
            ("topic2title", "Cross_Title"), ("summary2title", "Para_Title"), ("summary2tab",
            "Cross_Table"),
            ("extract_fig2tab", "Figure_Table"))),
        ("Locating", 2, (), "other", ["multi_page", "task/Locating"]),
        (None, 0, (), None, []),
    ],
)  # fmt: skip
def test_lines_of_longdocurl(task, pages, sources, kind, lines):
    assert longdocurl_lines(task, pages, sources, kind) == lines


@given(st.text(max_size=40), KINDS)
def test_bounded_and_never_an_exception(text, kind):
    assert 0 <= longdocurl_score(text, longdocurl_parse(reply(text)), kind) <= 1 + 1e-12
    assert 0 <= longdocurl_score([text], longdocurl_inline(text), kind) <= 1


@pytest.mark.parametrize(
    ("gold", "pred", "kind", "expected"),
    [
        (41, 41.0, "Int", 1.0), ("0.635", 63.5, "Float", 1.0), (NA, "Not answerable.", "None",
        0.9333),
        ("['a', 'b']", "['a', 'b']", "something else", 1.0), ("x", None, "Str", 0.0),
        (NOT_EXTRACTED, NOT_EXTRACTED, "Str", 0.0),
    ],
)  # fmt: skip
def test_formats_of_mmlongbench_and_answers_that_nobody_extracted(gold, pred, kind, expected):
    assert mmlongbench_score(gold, pred, kind) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("pages", "sources", "kind", "answerable", "lines"),
    [
        (
            1,
            ("Table", "Chart"),
            "X",
            True,
            ["single_page", "source/Chart", "source/Table", "type/X"],
        ),
        (2, ("Table", "Table"), None, True, ["cross_page", "source/Table"]),
        (0, (), "Guide", True, ["cross_page", "type/Guide"]),  # answerable, nobody wrote pages down
        (1, (), None, False, ["single_page", "unanswerable"]),
        (0, (), None, False, ["unanswerable"]),
    ],
)
def test_single_cross_and_unanswerable(pages, sources, kind, answerable, lines):
    assert mmlongbench_lines(pages, sources, kind, answerable=answerable) == lines
