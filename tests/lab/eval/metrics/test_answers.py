"""Scores of answers and rankings of pages, each compared with a slow version."""

import itertools
import math
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.answers import (
    dude_anls,
    dude_prediction,
    mp_docvqa_anls,
    mpdocvqa_accuracy,
    overlap,
    ranking_scores,
    slidevqa_em_f1,
    slidevqa_joint,
    uda_answer,
    uda_f1,
)
from tests.lab.eval.metrics import slow

NA, ONE, LIST = "not-answerable", "extractive", "list/extractive"


@pytest.mark.parametrize(
    ("golds", "pred", "similarity", "accuracy"),
    [
        (["Feb 14, 1972", "14 Feb 1972"], "feb 14 1972", 0.9167, 0), (["x"], None, 0, 0),
        (["Ridge Road"], "Ridge  Road", 0.9091, 0), (["abcde"], "abxyz", 0, 0), (["none"], "None",
        0, 0),
    ],
)  # fmt: skip
def test_worked_examples_of_mp_docvqa(golds, pred, similarity, accuracy):
    assert mp_docvqa_anls(golds, pred) == pytest.approx(similarity, abs=5e-5)
    assert mpdocvqa_accuracy(golds, pred) == accuracy


def slow_numbers(golds: list[str], pred: str) -> tuple[float, int]:
    """Return similarity and accuracy."""
    pred, golds = pred.lower().strip(), [gold.lower().strip() for gold in golds]
    if pred in ("", "none"):
        return 0, int(pred == "" in golds)
    best = max(
        (1 - slow.distance(gold, pred) / max(len(gold), len(pred)) for gold in golds), default=0.0
    )
    return best if best >= 0.5 else 0, int(pred in golds)


TEXTS = (
    st.text("aAbß N ", max_size=7)
    | st.sampled_from(["none", "None", "NA", "n one"])
    | st.text(max_size=12)
)


@given(st.lists(TEXTS, max_size=3), TEXTS)
def test_equals_the_slow_reading_of_mp_docvqa(golds, pred):
    similarity, accuracy = slow_numbers(golds, pred)
    assert mp_docvqa_anls(golds, pred) == pytest.approx(similarity)
    assert mpdocvqa_accuracy(golds, pred) == accuracy


@pytest.mark.parametrize(
    ("golds", "pred", "kind", "expected"),
    [
        (["Harbour Bridge"], ["Harbor Bridge"], ONE, 0.9286), (["abcd"], ["abxy"], ONE, 0.5),
        ([], [], NA, 1.0), ([], ["none"], NA, 0),
        (["red", "green", "blue"], ["blue", "red"], LIST, 0.6667),
        (["Lyon", "Nice"], ["Nice", "Lyon", "Metz"], LIST, 0.6667), (["Lyon", "Nice"], ["Lyons"],
        LIST, 0.4),
        (["Lyon", "Lyon"], ["Lyon"], LIST, 1.0), (["Lyon"], ["Lyon", "Lyon"], LIST, 0.5),
        (["cat"], ["dog" + " " * 7], ONE, 0.7),
        # what is no list, and nothing
        (["Lyon"], "Lyon", ONE, 1.0), (["a", "b"], "ab", LIST, 1.0), (["Lyon"], None, ONE, 0),
        ([""], None, NA, 1.0), (["Straße"], ["strasse"], ONE, 1 - 2 / 7),
    ],
)  # fmt: skip
def test_worked_examples_of_dude(golds, pred, kind, expected):
    assert dude_anls(golds, pred, kind) == pytest.approx(expected, abs=5e-5)


def test_padding_gains_nothing():
    assert dude_prediction(" dog  food" + " " * 7) == ["dog food"]
    assert dude_prediction(["a", " b "]) == ["a", "b"]
    assert dude_prediction("never mind", refused=True) == [""]


def slow_similarity(gold: str, pred: str) -> float:
    edits = slow.distance(" ".join(gold.lower().split()), " ".join(pred.lower().split()))
    length = max(len(gold.upper()), len(pred.upper()))
    result = 1 - (edits / length if length else 0.0)
    return result if result >= 0.5 else 0.0


def slow_dude(golds: list[str], preds: list[str], kind: str) -> float:
    if kind == NA:
        golds, preds = golds or [""], preds or [""]
    if kind != LIST:
        pred = preds[0] if preds else ""
        return max((slow_similarity(gold, pred) for gold in golds), default=0.0)
    if not golds or not preds:
        return 0.0
    few, many = sorted((golds, preds), key=len)
    best = max(
        sum(slow_similarity(a, b) for a, b in zip(few, order, strict=True))
        for order in itertools.permutations(many, len(few))
    )
    return best / max(len(set(golds)), len(preds))


ANSWERS = st.lists(st.text("aAbß ", max_size=5) | st.text(max_size=8), max_size=4)


@given(ANSWERS, ANSWERS, st.sampled_from([NA, ONE, LIST]))
def test_equals_the_slow_reading_of_dude(golds, preds, kind):
    assert dude_anls(golds, preds, kind) == pytest.approx(slow_dude(golds, preds, kind))


@pytest.mark.parametrize(
    ("golds", "pred", "subset", "f1"),
    [
        (["Yes"], "Yes, because the authors say so", "paper_tab", 1.0),
        (["No", "They do not report it"], "Not reported", "paper_text", 1.0),
        (["SQuAD", "CoQA", "QuAC", "TriviaQA"], "TriviaQA", "paper_text", 0.0),
        (["Adam"], "Adam optimizer", "paper_tab", 0.6667),
        (["a BiLSTM-CRF tagger"], "The BiLSTM CRF tagger.", "feta", 0.4),
        (["three datasets"], "three three datasets", "feta", 0.8),
        ([], "x", "paper_tab", 0.0), (["x"], None, "feta", 0.0),
        # the fourth gold answer is compared with nothing, and makes the answer a plain Yes all the
        # same
        (["a", "b", "c", "yes"], "yes b", "paper_tab", 0.0),
        (["a", "b", "c", "d"], "yes b", "paper_tab", 0.6667),
        (["\u201cthe cat\u201d"], "\u201c cat\u201d", "feta", 1.0),
    ],
)  # fmt: skip
def test_worked_examples_of_uda(golds, pred, subset, f1):
    assert uda_f1(golds, pred, subset) == pytest.approx(f1, abs=5e-5)


def slow_uda(golds: list[str], pred: str, subset: str) -> float:
    best = 0.0
    if subset != "feta" and {gold.lower() for gold in golds} & {"yes", "no"}:
        if pred.lower()[:3] == "yes":
            pred = "Yes"
        elif pred.lower()[:2] == "no":
            pred = "No"
    for gold in golds[:1] if subset == "feta" else golds[:3]:
        best = max(best, slow.overlap(slow.squad(gold), slow.squad(pred))["f1"])
    return best


WORDS = ["Yes", "no", "not", "the", "a", "Adam", "x-y", "x", "\u2014a", " "]
REPLIES = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.text(max_size=20)


@given(st.lists(REPLIES, max_size=4), REPLIES, st.sampled_from(["paper_tab", "paper_text", "feta"]))
def test_equals_the_slow_reading_of_uda(golds, pred, subset):
    assert uda_f1(golds, pred, subset) == pytest.approx(slow_uda(golds, pred, subset))


@given(
    st.lists(st.sampled_from(["The answer is: ", "The answer is:", "no", " "]), max_size=5).map(
        "".join
    )
)
def test_the_last_marked_answer_is_what_splitting_leaves_last(response):
    assert uda_answer(response) == response.split("The answer is: ")[-1]


@pytest.mark.parametrize(
    ("gold", "pred", "question", "f1", "em"),
    [
        ("48 hours", "48 hrs", "How long is the trial?", 1.0, 1),
        ("12 countries", "12", "In how many countries is it sold?", 1.0, 1),
        ("12 countries", "12", "How many countries sell it?", 0.6667, 0),
        ("November 2014", "November 2016", "When was the launch?", 1.0, 1),
        ("Rock and Roll", "Rock & Roll music", "What genre?", 0.8, 0),
        ("Net Revenue 2013", "2013 Net Revenue", "What is the title?", 1.0, 0),
        ("", "", "?", 0, 0), ("a", "the", "?", 0, 0), ("x", None, "?", 0, 0), ("seven", "7", "?",
        1.0, 1),
    ],
)  # fmt: skip
def test_worked_examples_of_slidevqa(gold, pred, question, f1, em):
    numbers = slidevqa_em_f1(gold, pred, question)
    assert (numbers["f1"], numbers["em"]) == (pytest.approx(f1, abs=5e-5), em)


NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip


def slow_normal(answer: str, question: str) -> list[str]:
    """Apply section 6 of the specification, step by step."""
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


PARTS = [
    "this",
    "is",
    "it",
    "&",
    "and",
    "band",
    "percent",
    "because",
    "of",
    "due",
    "to",
    "hours",
    "the",
    "a",
    "yes",
    "north",
    "Cars",
    "cars",
    "rock,",
    "$4.5",
    "minites",
    "organisation",
    *NUMBERS,
]
SLIDES = st.lists(st.sampled_from(PARTS), max_size=5).map(" ".join) | st.text(max_size=20)
QUESTIONS = st.lists(st.sampled_from([*PARTS, "how many", "which", "Which"]), max_size=5).map(
    " ".join
)
PAGES = st.lists(st.integers(1, 5), max_size=4)


@given(SLIDES, SLIDES, QUESTIONS, PAGES, PAGES)
def test_equals_the_slow_reading_of_slidevqa(gold, pred, question, gold_pages, pred_pages):
    qa = slow.overlap(slow_normal(gold, question), slow_normal(pred, question))
    es = slow.overlap(gold_pages, pred_pages)
    assert slidevqa_em_f1(gold, pred, question) == pytest.approx(qa)
    assert overlap(gold_pages, pred_pages) == pytest.approx(es)
    precision, recall = qa["precision"] * es["precision"], qa["recall"] * es["recall"]
    f1 = 2 * precision * recall / (precision + recall) if precision else 0
    wanted = {
        "em": float(qa["em"] == es["em"] == 1),
        "f1": f1,
        "precision": precision,
        "recall": recall,
    }
    assert slidevqa_joint(qa, es) == pytest.approx(wanted)


ITEMS = st.integers(0, 13)
RANKINGS = st.lists(ITEMS, max_size=10)
GOLD_PAGES = st.lists(ITEMS, min_size=1, max_size=5) | st.just([*range(12)])


@pytest.mark.parametrize(
    ("gold", "ranked", "recalls", "ndcgs", "mrr"),
    [
        ("3 4", "4 9 3", (0.5, 1.0), (1.0, 0.9197, 0.9197), 1.0),
        ("3 4", "9 8", (0, 0), (0, 0, 0), 0),
        ("3 4", "3", (0.5, 0.5), (1.0, 0.6131, 1.0), 1.0),
        ("3 4", "9 3", (0, 0.5), (0, 0.3869, 0.3869), 0.5),
        ("3 4", "3 3 4", (0.5, 1.0), (1.0, 1.3066, 1.3066), 1.0),
        ("3 4 5", "3 3", (0.3333, 0.3333), (1.0, 0.7654, 1.0), 1.0),
    ],
)
def test_worked_examples_of_vidoseek(gold, ranked, recalls, ndcgs, mrr):
    found = ranking_scores(gold.split(), ranked.split())
    assert [found[f"recall@{k}"] for k in (1, 5)] == pytest.approx(recalls, abs=5e-5)
    assert [found[f"ndcg@{k}"] for k in (1, 5, "all")] == pytest.approx(ndcgs, abs=5e-5)
    assert found["mrr@5"] == pytest.approx(mrr)


def test_without_gold_there_is_no_number():
    found = ranking_scores([], ["a"])
    assert len(found) == 16
    assert set(found.values()) == {None}


def slow_ranking(gold: list[int], ranked: list[int], k: int | None) -> dict[str, float]:
    """Apply section 8 of the specification: recall, hit, MRR, nDCG."""
    cut = ranked if k is None else ranked[:k]
    limit = len(ranked) if k is None else k
    places = [index for index, item in enumerate(cut) if item in gold]
    found = {cut[index] for index in places}
    dcg = sum(1 / math.log2(index + 2) for index in places)
    ideal = sum(1 / math.log2(index + 2) for index in range(min(limit, len(set(gold)))))
    mrr = 1 / (places[0] + 1) if places else 0.0
    ndcg = dcg / ideal if ideal else 0.0
    return {
        "recall": len(found) / len(set(gold)),
        "hit": float(bool(found)),
        "mrr": mrr,
        "ndcg": ndcg,
    }


@given(GOLD_PAGES, RANKINGS, st.one_of(st.none(), st.integers(1, 12)))
def test_rankings_equal_the_slow_reading_with_and_without_repetitions(gold, ranked, k):
    wanted = {f"{n}@{k or 'all'}": value for n, value in slow_ranking(gold, ranked, k).items()}
    assert ranking_scores(gold, ranked, (k,)) == pytest.approx(wanted)
