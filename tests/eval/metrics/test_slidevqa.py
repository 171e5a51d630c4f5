from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.slidevqa import (
    slidevqa_em_f1,
    slidevqa_evidence,
    slidevqa_joint,
    slidevqa_normalise,
)
from tests.eval.metrics import slow

NONE = {"em": 0, "f1": 0, "precision": 0, "recall": 0}


@pytest.mark.parametrize(
    ("gold", "pred", "question", "f1", "em"),
    [
        ("48 hours", "48 hrs", "How long is the trial?", 1.0, 1),
        ("12 countries", "12", "In how many countries is it sold?", 1.0, 1),
        ("12 countries", "12", "How many countries sell it?", 0.6667, 0),
        ("November 2014", "November 2016", "When was the launch?", 1.0, 1),
        ("Rock and Roll", "Rock & Roll music", "What genre?", 0.8, 0),
        ("Net Revenue 2013", "2013 Net Revenue", "What is the title?", 1.0, 0),
        ("", "", "?", 0, 0), ("a", "the", "?", 0, 0), ("x", None, "?", 0, 0), ("seven", "7", "?", 1.0, 1),
        ("12 a", "12", "Of how many", 1.0, 1), ("12", "12 which", "Of which", 0.6667, 0),
    ],
)  # fmt: skip
def test_worked_examples(gold, pred, question, f1, em):
    numbers = slidevqa_em_f1(gold, pred, question)
    assert (numbers["f1"], numbers["em"]) == (pytest.approx(f1, abs=5e-5), em)


@pytest.mark.parametrize(
    ("answer", "question", "normal"),
    [
        ("The Brand & The Thousand Islands", "?", "br thous isls"), ("North Sea", "?", "north"),
        ("the North Sea", "?", "north sea"), ("$4.5 bn", "?", "45 bn"),
        ("It is because of rain", "?", "rain"),
        ("ten percent", "?", "10"), ("5 minites", "?", "5 min"), ("the organisation", "?", "organization"),
        ("Yes, it does", "?", "yes"), ("2 red cars", "in which red car", "2 cars"),
        ("thirty one", "?", "thirty 1"),
        ("2 Cars", "in which Cars", "2 cars"), ("carscar", "of how many car?", "carscar"),
        ("", "which x", ""),
        ("aaxb", "somewhichever which x", "aaxb"), ("yesno\tmaybe", "?", "yesno"),
    ],
)  # fmt: skip
def test_normalisation(answer, question, normal):
    assert slidevqa_normalise(answer, question) == normal


@pytest.mark.parametrize(
    ("gold", "pred", "f1", "em"),
    [([4, 9], [9, 4], 1.0, 0), ([4, 9], [4], 0.6667, 0), ([4], [4, 4], 0.6667, 0), ([], [], 0, 0),
    ([1], [1], 1, 1)],
)  # fmt: skip
def test_evidence(gold, pred, f1, em):
    numbers = slidevqa_evidence(gold, pred)
    assert (numbers["f1"], numbers["em"]) == (pytest.approx(f1, abs=5e-5), em)


def test_the_joint_example():
    rows = [
        ("Rock and Roll", "Rock & Roll music", [4, 9], [4]),
        ("48 hours", "48 hrs", [2], [2]),
        ("Ann", "Bob", [1], [1]),
    ]
    answers = [slidevqa_em_f1(gold, pred, "What?") for gold, pred, _, _ in rows]
    pages = [slidevqa_evidence(gold, pred) for _, _, gold, pred in rows]
    joint = [slidevqa_joint(qa, es) for qa, es in zip(answers, pages, strict=True)]

    def mean(numbers, name):
        return sum(each[name] for each in numbers) / 3

    found = [mean(numbers, name) for numbers in (answers, pages, joint) for name in ("f1", "em")]
    assert found == pytest.approx([0.6, 0.3333, 0.8889, 0.6667, 0.5238, 0.3333], abs=5e-5)


NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip


def slow_normal(answer: str, question: str) -> list[str]:
    """Section 6 of the specification, step by step."""
    text = answer.lower()
    for gone in ("this is ", "it is "):
        text = "".join(text.split(gone))
    text = ",".join(text.split("&"))
    text = ",".join(text.split("and"))
    text = "".join(text.split("percent"))
    text = "organization".join(text.split("organisation"))
    for gone in ("because of", "because", "due to"):
        text = "".join(text.split(gone))
    text = "hrs".join(text.split("hours"))
    text = "min".join(text.split("minites"))
    for cue in ("how many", "which"):
        place = question.find(cue)
        following = question[place + len(cue) :].split() if place >= 0 else []
        if following:
            text = "".join(text.split(following[0]))
    text = re.sub("[" + re.escape(string.punctuation) + "]", "", text)
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    if re.match("yes|no", text):
        text = re.match(r"\S+", text)[0]
    return [str(NUMBERS.index(word)) if word in NUMBERS else word for word in text.split()]


WORDS = ["this", "is", "it", "&", "and", "band", "percent", "because", "of", "due", "to", "hours", "the", "a",
         "yes", "north", "seven", "nineteen", "cars", "Cars", "rock,", "$4.5", "minites",
         "organisation"]  # fmt: skip
ANSWERS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
QUESTIONS = st.lists(st.sampled_from([*WORDS, "how many", "which", "Which"]), max_size=5).map(" ".join)


@given(ANSWERS, ANSWERS, QUESTIONS)
def test_equals_the_slow_reading(gold, pred, question):
    wanted, given = slow_normal(gold, question), slow_normal(pred, question)
    numbers = slidevqa_em_f1(gold, pred, question)
    assert numbers["f1"] == pytest.approx(slow.word_f1(wanted, given))
    assert numbers["em"] == float(bool(wanted) and wanted == given)


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_bounds_and_symmetry(a, b, question):
    one, other = slidevqa_em_f1(a, b, question), slidevqa_em_f1(b, a, question)
    assert all(0 <= value <= 1 for value in one.values())
    assert one["f1"] == other["f1"]
    assert one["em"] == other["em"]
    assert (one["precision"], one["recall"]) == (other["recall"], other["precision"])


PAGES = st.lists(st.integers(1, 5), max_size=4)


def slow_evidence(gold: list[int], pred: list[int]) -> dict[str, float]:
    """Multiset overlap of two lists of pages, by crossing out."""
    left = list(gold)
    for page in pred:
        if page in left:
            left.remove(page)
    same = len(gold) - len(left)
    if same == 0:
        return NONE
    precision, recall = same / len(pred), same / len(gold)
    f1 = 2 * precision * recall / (precision + recall)
    return {"em": float(gold == pred), "f1": f1, "precision": precision, "recall": recall}


@given(ANSWERS, ANSWERS, PAGES, PAGES)
def test_evidence_and_both_together_equal_the_slow_reading(gold, pred, gold_pages, pred_pages):
    es = slow_evidence(gold_pages, pred_pages)
    assert slidevqa_evidence(gold_pages, pred_pages) == pytest.approx(es)
    qa = slow_evidence(slow_normal(gold, "?"), slow_normal(pred, "?"))  # the same of words
    assert slidevqa_em_f1(gold, pred, "?") == pytest.approx(qa)
    precision, recall = qa["precision"] * es["precision"], qa["recall"] * es["recall"]
    f1 = 2 * precision * recall / (precision + recall) if precision else 0
    wanted = {"em": float(qa["em"] == es["em"] == 1), "f1": f1, "precision": precision, "recall": recall}
    assert slidevqa_joint(qa, es) == pytest.approx(wanted)
