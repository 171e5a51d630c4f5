import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.rewards.answer_kinds import IdentifierRule, kind_of, norm_id
from docagent_rl.rewards.answer_rule import ABSTENTIONS, AnswerRule, Gold, GoldForm, best_matching
from docagent_rl.rewards.text import edit_distance

RULE = AnswerRule()
PAPER = AnswerRule(identifiers=IdentifierRule.PAPER)
NOBODY_KNOWS = Gold(GoldForm.ABSTENTION)


def variants(*texts):
    return Gold(GoldForm.VARIANTS, texts)


def items(*texts):
    return Gold(GoldForm.LIST, texts)


@pytest.mark.parametrize(
    ("prediction", "gold", "score"),
    [
        ("Bureau of Standard", variants("Bureau of Standards"), 18 / 19),
        ("bureau  OF\nstandards", variants("Bureau of Standards"), 1),
        ("bland", variants("blue"), 0),
        ("bluesy", variants("blue"), 4 / 6),
        ("blue", variants("bluesyes"), 0.5),
        ("14,350", variants("14,250"), 0),
        ("14,250 people", variants("14,250"), 0),
        ("", variants("blue"), 0),
        (" ".join(["blue"] * 5000), variants("blue"), 0),
        (None, NOBODY_KNOWS, 0),
        ("Not answerable.", NOBODY_KNOWS, 1),
        ("It is not answerable", NOBODY_KNOWS, 0),
        ("unanswerable", variants("n/a"), 1),
        ("not answerable!x", variants("not answerable"), 0),
        ("none", items("nine", "one"), 0),
        (" blue ;; red ;", items("blue", "red"), 1),
        ("red; blue; green", items("blue", "red"), 2 / 3),
        ("red, blue", items("blue", "red"), 0),
        ("reds; blue", items("blue", "red"), (3 / 4 + 1) / 2),
        ("not answerable", items("blue", "red"), 0),
        ("n/a", items("n/a", "red"), 0),
        (";", items(), 0),
        # greedily "abcd" would take the first gold item and leave nothing for "abxx"
        ("abcd; abxx", items("abcx", "abcd"), (1 + 0.75) / 2),
        ("12; 13%", items("13", "twelve"), 0.5),
        # a dump of candidates is no answer
        ("; ".join(map(str, range(3000))), items("12", "13"), 2 / 3000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_scores(prediction, gold, score):
    assert RULE.score(prediction, gold) == pytest.approx(score)


@pytest.mark.parametrize(
    ("rule", "prediction", "gold", "score"),
    [
        (PAPER, "3.51", "3.50", 0.75),
        (PAPER, "14,350", "14,250", 0),
        (AnswerRule(threshold=0.7), "bluesy", "blue", 0),
        (AnswerRule(threshold=0), "bland", "blue", 2 / 5),
    ],
)
def test_other_rules(rule, prediction, gold, score):
    assert rule.score(prediction, variants(gold)) == pytest.approx(score)


def test_abstentions():
    rule = AnswerRule(abstentions=("No Idea",))
    assert (rule.abstains(" no  idea! "), rule.abstains("not answerable")) == (True, False)
    assert all(RULE.abstains(phrase.upper()) for phrase in ABSTENTIONS)


def slow_score(prediction, gold):
    """Score by the specification, without shortcuts."""

    def bare(text):
        return " ".join(text.lower().split())

    def one(said, wanted):
        if bare(wanted) in ABSTENTIONS or bare(said) in ABSTENTIONS:
            return float(bare(wanted) in ABSTENTIONS and bare(said) in ABSTENTIONS)
        kind = kind_of(wanted)
        if kind.value != "text":
            return float(norm_id(kind, said) == norm_id(kind, wanted))
        longest = max(len(bare(said)), len(bare(wanted)))
        similarity = 1 - edit_distance(bare(said), bare(wanted)) / longest if longest else 0.0
        return similarity if similarity >= 0.5 else 0.0

    if not prediction.strip():
        return 0.0
    if gold.form is GoldForm.ABSTENTION:
        return float(bare(prediction) in ABSTENTIONS)
    if gold.form is GoldForm.VARIANTS:
        return max(one(prediction, text) for text in gold.texts)
    said = [item.strip() for item in prediction.replace("\n", ";").split(";") if item.strip()]
    if not said or bare(prediction) in ABSTENTIONS:
        return 0.0
    short, long = sorted((said, list(gold.texts)), key=len)
    flip = short is not said
    totals = (
        sum(one(b, a) if flip else one(a, b) for a, b in zip(short, chosen, strict=True))
        for chosen in itertools.permutations(long, len(short))
    )
    return max(totals) / len(long)


WORDS = ["blue", "blues", "red", "rod", "12", "13", "3.5", "2019", "none", "a b", "A  B", "n/a"]
words = st.sampled_from(WORDS)
texts = st.lists(words, min_size=1, max_size=4).map(tuple)
golds = st.builds(Gold, st.sampled_from([GoldForm.VARIANTS, GoldForm.LIST]), texts) | st.just(
    NOBODY_KNOWS
)


@settings(max_examples=80)
@given(st.lists(words, max_size=4).map("; ".join), golds)
def test_against_the_slow_version(prediction, gold):
    assert RULE.score(prediction, gold) == pytest.approx(slow_score(prediction, gold))


@settings(max_examples=40)
@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=20), max_size=4).map(tuple))
def test_bounds(prediction, texts):
    scores = [RULE.score(prediction, Gold(form, texts)) for form in GoldForm]
    assert 0 <= min(scores) <= max(scores) <= 1
    assert RULE.score(prediction, variants(*texts, "another")) >= RULE.score(
        prediction, variants(*texts)
    )


def brute_force(table):
    n, m = len(table), len(table[0])
    if n > m:
        return brute_force([list(column) for column in zip(*table, strict=True)])
    return max(
        sum(table[row][column] for row, column in enumerate(columns))
        for columns in itertools.permutations(range(m), n)
    )


shapes = st.tuples(st.integers(1, 5), st.integers(1, 5))
values = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
tables = shapes.flatmap(
    lambda shape: st.lists(
        st.lists(values, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


@given(tables)
def test_against_all_matchings(table):
    assert best_matching(table) == pytest.approx(brute_force(table), abs=1e-12)


@pytest.mark.parametrize("table", [[], [[]], [[], []]])
def test_nothing_to_pair(table):
    assert best_matching(table) == 0.0


@pytest.mark.parametrize("table", [[[-1.0, 0.0]], [[float("nan"), 0.0]], [[float("inf"), 0.0]]])
def test_scores_that_are_none(table):
    with pytest.raises(ValueError):
        best_matching(table)


def test_large_tables():
    """Matching takes cubic time at most; trying all assignments would never end."""
    table = np.random.default_rng(0).random((300, 600))
    total = best_matching(table)
    assert 299 < total <= table.max(axis=1).sum()
