from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.answer_kinds import IdentifierRule, kind_of, norm_id
from docagent_rl.rewards.text import edit_distance
from docagent_rl.systems.doc_v_star.answer_reward import ABSTENTIONS, AnswerRule, Gold, GoldForm

RULE = AnswerRule()


def variants(*texts):
    return Gold(GoldForm.VARIANTS, texts)


def items(*texts):
    return Gold(GoldForm.LIST, texts)


NOBODY_KNOWS = Gold(GoldForm.ABSTENTION)


@pytest.mark.parametrize(
    ("prediction", "gold", "score"),
    [
        ("Bureau of Standard", variants("Bureau of Standards"), 18 / 19),
        ("bureau  OF\nstandards", variants("Bureau of Standards"), 1),
        ("blue", variants("green", "Blue"), 1),
        ("bland", variants("blue"), 0),
        ("bluesy", variants("blue"), 4 / 6),
        ("blue", variants("bluesyes"), 0.5),
        ("14,350", variants("14,250"), 0),
        ("14,250 people", variants("14,250"), 0),
        ("", variants("blue"), 0),
        (None, NOBODY_KNOWS, 0),
        ("Not answerable.", NOBODY_KNOWS, 1),
        ("It is not answerable", NOBODY_KNOWS, 0),
        ("blue", NOBODY_KNOWS, 0),
        ("unanswerable", variants("n/a"), 1),
        ("unknown", variants("unknowns"), 0),
        ("none", items("nine", "one"), 0),
    ],
)
def test_scores(prediction, gold, score):
    assert RULE.score(prediction, gold) == pytest.approx(score)


@pytest.mark.parametrize(
    ("prediction", "score"),
    [
        ("red; blue", 1),
        (" blue ;; red ;", 1),
        ("red; red", 0.5),
        ("red; blue; green", 2 / 3),
        ("red, blue", 0),
        ("reds; blue", (3 / 4 + 1) / 2),
        (";", 0),
        ("not answerable", 0),
    ],
)
def test_lists(prediction, score):
    assert RULE.score(prediction, items("blue", "red")) == pytest.approx(score)


def test_items_are_matched_one_to_one():
    # greedily "abcd" would take the first gold item and leave nothing for "abxx"
    assert RULE.score("abcd; abxx", items("abcx", "abcd")) == pytest.approx((1 + 0.75) / 2)
    assert RULE.score("12; 13%", items("13", "twelve")) == pytest.approx(0.5)


def test_the_rule_of_the_paper():
    paper = AnswerRule(identifiers=IdentifierRule.PAPER)
    assert paper.score("3.51", variants("3.50")) == pytest.approx(0.75)
    assert RULE.score("3.51", variants("3.50")) == 0
    assert paper.score("14,350", variants("14,250")) == 0


def test_threshold():
    assert AnswerRule(threshold=0.7).score("bluesy", variants("blue")) == 0
    assert AnswerRule(threshold=0).score("bland", variants("blue")) == pytest.approx(2 / 5)


def test_abstentions_of_ones_own():
    rule = AnswerRule(abstentions=("No Idea",))
    assert rule.abstains(" no  idea! ")
    assert not rule.abstains("not answerable")
    for phrase in ABSTENTIONS:
        assert RULE.abstains(phrase.upper())


def slow_score(prediction, gold):
    """The specification once more, without shortcuts."""

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


words = st.sampled_from(
    ["blue", "blues", "red", "rod", "12", "13", "3.5", "2019", "none", "a b", "A  B", "n/a"]
)
golds = st.one_of(
    st.builds(
        Gold,
        st.sampled_from([GoldForm.VARIANTS, GoldForm.LIST]),
        st.lists(words, min_size=1, max_size=4).map(tuple),
    ),
    st.just(NOBODY_KNOWS),
)


@given(st.lists(words, max_size=4).map("; ".join), golds)
def test_against_the_slow_version(prediction, gold):
    assert RULE.score(prediction, gold) == pytest.approx(slow_score(prediction, gold))


@given(
    st.text(max_size=30),
    st.lists(st.text(min_size=1, max_size=20), max_size=4).map(tuple),
    st.sampled_from(GoldForm),
)
def test_bounds(prediction, texts, form):
    score = RULE.score(prediction, Gold(form, texts))
    assert 0 <= score <= 1
    if form is GoldForm.VARIANTS:
        assert RULE.score(prediction, Gold(form, (*texts, "another"))) >= score


@given(st.lists(words.filter(lambda word: word not in ABSTENTIONS), min_size=1, max_size=5, unique=True))
def test_right_answers_get_everything(texts):
    assert RULE.score("; ".join(reversed(texts)), Gold(GoldForm.LIST, tuple(texts))) == pytest.approx(1)
    assert RULE.score(texts[0], Gold(GoldForm.VARIANTS, tuple(texts))) == pytest.approx(1)


def test_a_dump_of_candidates_is_no_answer():
    assert RULE.score("; ".join(map(str, range(3000))), items("12", "13")) == pytest.approx(2 / 3000)
    assert RULE.score(" ".join(["blue"] * 5000), variants("blue")) == 0
