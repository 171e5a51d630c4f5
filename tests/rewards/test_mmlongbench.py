import re
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.mmlongbench import (
    FAIL_TO_ANSWER,
    AnswerFormat,
    answer_rightness,
    clean_answer,
    extracted_answer,
    is_exact,
    mmlongbench_anls,
    unlabelled,
)
from docagent_rl.rewards.text import NOT_ANSWERABLE

INT, FLOAT, STR, LIST, NONE = (
    AnswerFormat.INT,
    AnswerFormat.FLOAT,
    AnswerFormat.STR,
    AnswerFormat.LIST,
    AnswerFormat.NONE,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("integer", INT),
        (" list ", LIST),
        ("list/extractive", LIST),
        ("not-answerable", NONE),
        ("extractive", STR),
    ],
)
def test_formats_of_other_benchmarks_have_one_of_these(name, kind):
    assert AnswerFormat.of(name) is kind


@pytest.mark.parametrize(
    ("gold", "prediction", "kind", "expected"),
    [
        ("41", "41.97", INT, 1), ("1,860", "1860", INT, 0), ("7", "7 units", INT, 0), ("41",
        "1,000", INT, 0),
        ("41", "inf", INT, 0), ("41", "nan", INT, 0), ("yes", "yes", INT, 0), ("-3", "-3.9", INT,
        1),
        ("63.5%", "0.64", FLOAT, 1), ("63.5%", "64.1", FLOAT, 1), ("63.5%", "64.2", FLOAT, 0),
        ("$12.5", "12.5 (million)", FLOAT, 1), ("0.4", "0", FLOAT, 1), ("0.6", "0", FLOAT, 0),
        ("63.5", "about 63.5", FLOAT, 0), ("n/a", "1", FLOAT, 0), ("2", "199", FLOAT, 1),
        ("2", "nan", FLOAT, 0), ("0.01", "1e-7", FLOAT, 1),
        ("Lake Ontario", "Lake Ontaro", STR, 1 - 1 / 12),
        ("Lake Ontario", "lake ontario (north shore)", STR, 1),
        ("Lake Ontario", "Ontario Lake", STR, 0), ("abcd", "abxy", STR, 0), ("12-34", "12-35", STR,
        0),
        ("12 miles", "12", STR, 0), ("Port Authority of "
                                     "Gdansk", "Port Authority in Gdansk", STR, 1 - 2 / 24),
        (NOT_ANSWERABLE, "Not answerable.", NONE, 1 - 1 / 15),
        (NOT_ANSWERABLE, "unanswerable", NONE, 1 - 4 / 14),
        (NOT_ANSWERABLE, "N/A", NONE, 0), (NOT_ANSWERABLE, "not applicable", NONE, 1 - 5 / 14),
        (NOT_ANSWERABLE, FAIL_TO_ANSWER, NONE, 0), ("", "", STR, 1),
        ("['teal', 'ochre']", "['Ochre', 'Teal']", LIST, 1),
        ("['teal', 'ochre']", "['teal', 'ochra']", LIST, 0.8),
        ("['teal', 'ochre']", "['teal']", LIST, 0), ("['teal', 'ochre']", "['teal', 'ochre'", LIST,
        0),
        ("['3', '11']", "[11.0, 3]", LIST, 0), ("['3', '11']", "[11, 3]", LIST, 1),
        ("['2019', 'Kyoto']", "['2019', 'Kyotto']", LIST, 0),
        ("['1.5', 'alpha']", "['1.5', 'alpho']", LIST, 0), ("['4']", "[3 and 4]", LIST, 1),
        ("['a.b@c.de', 'alpha']", "['a.b@c.de', 'alpho']", LIST, 0),
        ("['alpha', 'beta']", "['zalpha', 'beta']", LIST, 0),
        ("['[1]', 'b']", "[1], 'b'", LIST, 0), ("7", "0" * 500 + "7", INT, 1), ("", "x", INT, 1),
        ("[]", "[]", LIST, 0), ("92", "92", LIST, 1), (("teal", "ochre"), "['ochre', 'teal']", LIST,
        1),
        (("teal",), "teal", LIST, 1), ("['a']", "[__import__('os')]", LIST, 0),
    ],
)  # fmt: skip
def test_worked_examples(gold, prediction, kind, expected):
    assert answer_rightness(gold, prediction, kind) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  'Yes' ", "yes"), ('"a"', "a"), ("$ 1,200", "1,200"), ("45 %", "45"), ("a (b) c (d)",
        "a c"),
        ("a ((b) c", "a c"), ("a (b", "a (b"), ("12 miles", "12 miles"), ("''a''", "'a'"), (5, "5"),
        ("(x)", ""),
    ],
)  # fmt: skip
def test_cleaning(raw, cleaned):
    assert clean_answer(raw) == cleaned


@pytest.mark.parametrize(
    "gold",
    ["see https://a.b", "run.py", "demo.ipynb", "page 5", "12", "12-34", "12 34", "9 a.m.",
    "10 p.m. sharp",
     "2020-01-31", "2020 01", "a.b@c.de"],
)  # fmt: skip
def test_golds_compared_by_equality(gold):
    assert is_exact(gold)


@pytest.mark.parametrize(
    "gold", ["12 miles", "a@b", "spage", "1.5", "2020-1-31x", "blue", "", "a@\u017ft.de"]
)
def test_golds_compared_by_edits(gold):
    assert not is_exact(gold)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Int", INT), ("Integer", INT), ("float", FLOAT), ("String", STR), (" list ", LIST),
        ("None", NONE),
        ("extractive", STR),
    ],
)  # fmt: skip
def test_names_of_formats(name, kind):
    assert AnswerFormat.of(name) is kind


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Extracted answer: 14\nAnswer format: Integer", "14"),
        ("Sure.\nExtracted answer:  ['a', 'b'] ", "['a', 'b']"),
        ("Extracted answer: a Extracted answer: b\nAnswer format: String", "a"),
        ("Extracted answer:\nAnswer format: String", ""),
        ("Answer format: Integer\nExtracted answer: 14", None),
        ("extracted answer: 14", None),
        ("14", None),
        ("", None),
    ],
)
def test_replies_of_extractors(reply, answer):
    assert extracted_answer(reply) == answer


def slow_distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(
        slow_distance(a[1:], b) + 1,
        slow_distance(a, b[1:]) + 1,
        slow_distance(a[1:], b[1:]) + (a[0] != b[0]),
    )


short = st.text(alphabet="ab\u00dfA ", max_size=5)


@given(short, short)
def test_anls_against_a_slow_version(gold, prediction):
    longest = max(len(gold.upper()), len(prediction.upper()))
    slow = 1.0 if not longest else 1 - slow_distance(gold, prediction) / longest
    assert mmlongbench_anls(gold, prediction) == pytest.approx(slow if slow > 0.5 else 0.0)


@given(st.text(alphabet="a( )'\"$%b", max_size=20))
def test_cleaning_against_regular_expressions(text):
    plain = re.sub(r"\s*\([^)]*\)", "", text.lower().strip()).strip()
    plain = re.sub(r"^['\"]", "", plain)
    plain = re.sub(r"['\"]$", "", plain)
    assert clean_answer(text) == plain.strip().lstrip("$").strip().rstrip("%").strip()


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_floats_against_a_slow_version(gold, prediction):
    def places(number):
        return len(str(number).split(".")[-1]) if "." in str(number) else 3

    slow = False
    for wanted in (gold / 100, gold, gold * 100):
        p = max(2, min(places(prediction), places(wanted)))
        slow |= isclose(prediction, wanted, rel_tol=0.01) or round(prediction, p) == round(
            wanted, p
        )
    assert answer_rightness(str(gold), str(prediction), FLOAT) == float(slow)


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(list(AnswerFormat)))
def test_bounds(gold, prediction, kind):
    assert 0 <= answer_rightness(gold, prediction, kind) <= 1
    assert 0 <= answer_rightness((gold, prediction), prediction, kind) <= 1


@given(st.text(alphabet="abcxyz ", min_size=1, max_size=20))
def test_the_gold_itself_scores_one(gold):
    if clean_answer(gold):
        assert answer_rightness(gold, gold, STR) == 1
        assert answer_rightness((gold,), repr([gold]), LIST) == 1


@pytest.mark.parametrize("kind", AnswerFormat)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        " " * 100_000 + "(",
        "9" * 100_000,
        "[" * 100_000,
        "a@" * 50_000,
        "(a) " * 50_000,
    ],
)
def test_long_predictions_are_scored(kind, text):
    """Scoring takes linear time: a pattern that backtracks over these would take minutes."""
    assert answer_rightness("42", text, kind) == 0


@pytest.mark.parametrize(
    "text", ["Extracted answer: 5", "so EXTRACTED ANSWER : 5\nanswer format: Int", "plain: 5"]
)
def test_a_quotation_of_unlabelled_text_is_no_extraction(text):
    assert (
        extracted_answer(f"{unlabelled(text)}\nExtracted answer: 7\nAnswer format: Integer") == "7"
    )
    assert "5" in unlabelled(text)
    assert unlabelled("plain: 5") == "plain: 5"
