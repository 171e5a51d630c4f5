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
    ],
)  # fmt: skip
def test_worked_examples(gold, pred, question, f1, em):
    numbers = slidevqa_em_f1(gold, pred, question)
    assert (numbers["f1"], numbers["em"]) == (pytest.approx(f1, abs=5e-5), em)


@pytest.mark.parametrize(
    ("answer", "question", "normal"),
    [
        ("The Brand & The Thousand Islands", "?", "br thous isls"), ("North Sea", "?", "north"),
        ("$4.5 bn", "?", "45 bn"), ("ten percent", "?", "10"), ("2 red cars", "in which red car", "2 cars"),
        ("2 Cars", "in which Cars", "2 cars"), ("aaxb", "somewhichever which x", "aaxb"),
        ("yesno\tmaybe", "?", "yesno"),
    ],
)  # fmt: skip
def test_normalisation(answer, question, normal):
    assert slidevqa_normalise(answer, question) == normal


def test_the_joint_example():
    rows = [
        ("Rock and Roll", "Rock & Roll music", [4, 9], [4]),
        ("48 hours", "48 hrs", [2], [2]),
        ("Ann", "Bob", [1], [1]),
    ]
    answers = [slidevqa_em_f1(gold, pred, "What?") for gold, pred, _, _ in rows]
    pages = [slidevqa_evidence(gold, pred) for _, _, gold, pred in rows]
    joint = [slidevqa_joint(qa, es) for qa, es in zip(answers, pages, strict=True)]
    found = [
        sum(each[name] for each in numbers) / 3
        for numbers in (answers, pages, joint)
        for name in ("f1", "em")
    ]
    assert found == pytest.approx([0.6, 0.3333, 0.8889, 0.6667, 0.5238, 0.3333], abs=5e-5)


NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip


def slow_normal(answer: str, question: str) -> list[str]:
    """Section 6 of the specification, step by step."""
    text = answer.lower()
    for old, new in (
        ("this is ", ""), ("it is ", ""), ("&", ","), ("and", ","), ("percent", ""),
        ("organisation", "organization"), ("because of", ""), ("because", ""), ("due to", ""),
        ("hours", "hrs"), ("minites", "min"),
    ):  # fmt: skip
        text = new.join(text.split(old))
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


def slow_overlap(gold: list, pred: list) -> dict[str, float]:
    """Multiset overlap by crossing out."""
    left = list(gold)
    for item in pred:
        if item in left:
            left.remove(item)
    same = len(gold) - len(left)
    if same == 0:
        return dict.fromkeys(("em", "f1", "precision", "recall"), 0)
    numbers = {"precision": same / len(pred), "recall": same / len(gold), "f1": slow.word_f1(gold, pred)}
    return numbers | {"em": float(gold == pred)}


WORDS = ["this", "is", "it", "&", "and", "band", "percent", "because", "of", "due", "to", "hours", "the", "a",
         "yes", "north", "Cars", "cars", "rock,", "$4.5", "minites", "organisation", *NUMBERS]  # fmt: skip
ANSWERS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join) | st.text(max_size=20)
QUESTIONS = st.lists(st.sampled_from([*WORDS, "how many", "which", "Which"]), max_size=5).map(" ".join)
PAGES = st.lists(st.integers(1, 5), max_size=4)


@given(ANSWERS, ANSWERS, QUESTIONS, PAGES, PAGES)
def test_equals_the_slow_reading(gold, pred, question, gold_pages, pred_pages):
    qa = slow_overlap(slow_normal(gold, question), slow_normal(pred, question))
    es = slow_overlap(gold_pages, pred_pages)
    assert slidevqa_em_f1(gold, pred, question) == pytest.approx(qa)
    assert slidevqa_evidence(gold_pages, pred_pages) == pytest.approx(es)
    precision, recall = qa["precision"] * es["precision"], qa["recall"] * es["recall"]
    f1 = 2 * precision * recall / (precision + recall) if precision else 0
    wanted = {"em": float(qa["em"] == es["em"] == 1), "f1": f1, "precision": precision, "recall": recall}
    assert slidevqa_joint(qa, es) == pytest.approx(wanted)
