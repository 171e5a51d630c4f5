import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer

from docagent_rl.retrieval.tokens import Stemmer, Tokenizer, fold_query
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import (
    REFUSAL,
    AldenAnswerRule,
    AnswerMetric,
    Overlap,
    as_refusal,
    char_f1,
    is_refusal,
    read_query,
    repetition,
    word_f1,
)
from tests.players import formulas
from tests.players.formulas import repetition as slow_repetition

RULES = [AldenConfig.for_variant(variant).reward for variant in ("paper", "released")]
OUTCOME = AldenConfig.for_variant("paper", reward={"calls": False}).reward


@pytest.mark.parametrize(
    ("page", "gold", "credits"),
    [
        (7, {7, 11}, [0.1353, 1.0]),
        (9, {7, 11}, [0.1353, 0.1104]),
        (8, {7}, [0.3679, 0.1820]),
        (7, {7}, [1.0, 1.0]),
        (7, set(), [0.0, 0.0]),
    ],
)
def test_fetch_values(page, gold, credits):
    assert [rule.fetch_credit(page, gold) for rule in RULES] == pytest.approx(credits, abs=5e-5)


@pytest.mark.parametrize(
    ("score", "refused", "answerable", "refusal_is_right", "rewards"),
    [
        (0.8, False, True, False, [4.0, 4.0]),
        (0.1, True, True, False, [0.5, -5.0]),
        (1.0, True, False, True, [5.0, 5.0]),
        (0.9, True, False, True, [4.5, 4.5]),
        (0.2, False, False, True, [1.0, -2.0]),
        # where references disagree the score decides
        (1.0, True, True, True, [5.0, 5.0]),
    ],
)
def test_final_turns(score, refused, answerable, refusal_is_right, rewards):
    said = {"refused": refused, "answerable": answerable, "refusal_is_right": refusal_is_right}
    assert [
        rule.formula.total(rule.answer_terms(score, **said)) for rule in RULES
    ] == pytest.approx(rewards)


@pytest.mark.parametrize(
    ("values", "rewards"),
    [
        ({}, [0, 0, 0]),
        ({"format": -1.0}, [-1, -1, -1]),
        ({"format": -1.0, "search": 1.0, "answer": 1.0}, [-1, -1, -1]),
        ({"search": 1.0, "query_repetition": 1.0}, [1, 1, 0]),
        ({"fetch": 1.0, "fetch_repetition": 1.0}, [0.5, 0, 0]),
        ({"fetch_failed": 1.0}, [-0.5, -0.5, 0]),
        ({"answer": 0.5}, [2.5, 2.5, 2.5]),
    ],
)
def test_turns(values, rewards):
    assert [rule.formula.total(values) for rule in (*RULES, OUTCOME)] == rewards


CHARACTERS, LETTERS = AnswerMetric.CHAR_F1, AnswerMetric.WORD_F1
PAPER_RULE = AldenAnswerRule(CHARACTERS, CHARACTERS)
RELEASED_RULE = AldenAnswerRule(LETTERS, LETTERS, polar_exact=True)
TEXT = st.text(alphabet="aebt 12.-$\u00e9\u5e74", max_size=20)


@pytest.mark.parametrize(
    ("prediction", "reference", "words", "characters"),
    [
        ("12.4 million", "$12.4 million USD", 0.8, 0.8696),
        ("42", "24", 0.0, 1.0),
        ("the Blue.", "blue", 1.0, 1.0),
        ("", "blue", 0.0, 0.0),
        ("blue blue", "blue", 2 / 3, 2 / 3),
        ("\u5e74\u5ea6", "\u5e74\u62a5", 0.5, 0.5),
    ],
)
def test_values_of_answers(prediction, reference, words, characters):
    assert word_f1(prediction, reference) == pytest.approx(words, abs=5e-5)
    assert char_f1(prediction, reference) == pytest.approx(characters, abs=5e-5)


@settings(max_examples=50)
@given(TEXT, TEXT, TEXT)
def test_answers_against_the_slow_version(prediction, one, other):
    characters = [formulas.char_f1(prediction, text) for text in (one, other)]
    assert char_f1(prediction, one) == pytest.approx(characters[0])
    assert PAPER_RULE.score(prediction, [one, other]) == pytest.approx(max(characters))
    assert PAPER_RULE.score(prediction, []) == 0
    # spaced when articles are gone: an article beside a letter is none
    words = [
        formulas.plain(text).replace("\u5e74", " \u5e74 ").split() for text in (prediction, one)
    ]
    assert word_f1(prediction, one) == pytest.approx(formulas.bag_f1(*words))


@pytest.mark.parametrize(
    ("prediction", "reference", "score"),
    [
        ("yes", "Yes.", 1.0),
        ("yes it is", "yes", 0.0),
        ("no", "no change", 0.0),
        ("yes it is", "it is so", 2 * 2 / 6),
    ],
)
def test_yes_and_no_are_exact_in_the_release(prediction, reference, score):
    assert RELEASED_RULE.score(prediction, [reference]) == pytest.approx(score)
    assert AldenAnswerRule(LETTERS, LETTERS).score(prediction, [reference]) >= score


def test_numeric_references_have_a_metric_of_their_own():
    rule = AldenAnswerRule(CHARACTERS, LETTERS)
    assert [rule.score("42", ["24"]), rule.score("enlist", ["listen"])] == [0, 1]
    assert rule.score("1998 March", ["March 1989"]) == 0.5


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (REFUSAL, True),
        ("I fear that the problem is not answerable here", True),
        ("not answerable", False),
        ("", False),
    ],
)
def test_refusals(text, refusal):
    assert is_refusal(text) is refusal


def test_the_canonical_refusal_is_put_into_its_own_words():
    assert as_refusal(NOT_ANSWERABLE) == as_refusal("not answerable.") == REFUSAL
    assert as_refusal("blue") == "blue"


FIRST = ["capital", "expenditure", "by", "region", "2019"]
SECOND = ["table", "of", "capital", "expenditure", "by", "region"]
WORDS = st.lists(st.sampled_from("abcd"), max_size=8)
JACCARD, CONTAINMENT = Overlap.JACCARD, Overlap.CONTAINMENT


@pytest.mark.parametrize(
    ("query", "earlier", "rule", "overlap", "shares"),
    [
        # the worked example
        (SECOND, [FIRST], JACCARD, 2 / 5, (0, 0, 1 / 6, 2 / 6, 2 / 6, 1 / 6)),
        (SECOND, [FIRST], CONTAINMENT, 2 / 4, (0, 0, 1 / 6, 2 / 6, 2 / 6, 1 / 6)),
        # the one charges what the nearest query shares, the other what any shares
        ("abcxyz", ["abc", "xyzw"], JACCARD, 1 / 4, (1 / 3, 1 / 3, 1 / 3, 0, 0, 0)),
        ("abcxyz", ["abc", "xyzw"], CONTAINMENT, 1 / 4, (1 / 6,) * 6),
        # shorter n-grams are tried when longer ones share nothing
        ("ab", ["xaby"], CONTAINMENT, 1, (1 / 2, 1 / 2)),
        ("axb", ["bya"], JACCARD, 2 / 4, (1 / 2, 0, 1 / 2)),
        ("abc", [], JACCARD, 0, (0, 0, 0)),
        ("abc", ["xyz"], JACCARD, 0, (0, 0, 0)),
        # whose comparison is linear in the length
        ("abcd" * 2500, ["abcd" * 2500] * 5, JACCARD, 1, None),
    ],
)
def test_values_of_repetition(query, earlier, rule, overlap, shares):
    found, parts = repetition(list(query), [list(words) for words in earlier], rule, 3)
    assert found == pytest.approx(overlap)
    assert shares is None or parts == pytest.approx(shares)


@settings(max_examples=60)
@given(WORDS, st.lists(WORDS, max_size=4), st.sampled_from(Overlap), st.integers(1, 4))
def test_repetition_against_the_slow_version(query, earlier, rule, n):
    overlap, shares = slow_repetition(query, earlier, n, nearest=rule is JACCARD)
    assert repetition(query, earlier, rule, n) == (pytest.approx(overlap), pytest.approx(shares))


def test_what_a_retriever_drops_makes_no_query_new():
    """This is checked for every character, with the tokenizers of BM25, MiniLM and ColBERT."""
    plain = BertNormalizer(handle_chinese_chars=False)
    # plane 0 and the tags of plane 14; a sign that later versions of Unicode call a letter
    codes = {*range(0xD800), *range(0xF900, 0x10000), *range(0xE0000, 0xE0200)} - {ord("|"), 0x1734}
    known = (chr(code) for code in codes if unicodedata.category(chr(code)) != "Cn")
    texts = [text for text in known if text == " " or not text.isspace()]
    read = plain.normalize_str("|".join(texts)).split("|")
    assert [
        text for text, bert in zip(texts, read, strict=True) if fold_query(bert) != fold_query(text)
    ] == []


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_words_are_the_tokens_of_bm25_and_have_their_places(text):
    query = read_query(f"<<{text}>>", (2, 2 + len(text)))
    tokens = Tokenizer(Stemmer.ENGLISH)(text)
    assert list(query.words) == tokens or not tokens
    assert list(query.spans) == sorted(query.spans)
    assert all(2 <= start < end <= 2 + len(text) for start, end in query.spans)
