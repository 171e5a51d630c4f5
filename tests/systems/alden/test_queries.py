from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer

from docagent_rl.retrieval.tokens import Tokenizer, fold
from docagent_rl.systems.alden.queries import Overlap, read_query, repetition
from tests.players.formulas import repetition as slow_repetition

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
        ("abc", [""], JACCARD, 0, (0, 0, 0)),
        # whose comparison is linear in the length
        ("abcd" * 2500, ["abcd" * 2500] * 5, JACCARD, 1, None),
    ],
)
def test_values(query, earlier, rule, overlap, shares):
    found = repetition(list(query), [list(words) for words in earlier], rule, 3)
    assert found.overlap == pytest.approx(overlap)
    assert shares is None or found.shares == pytest.approx(shares)


@settings(max_examples=60)
@given(WORDS, st.lists(WORDS, max_size=4), st.sampled_from(Overlap), st.integers(1, 4))
def test_against_the_slow_version(query, earlier, rule, n):
    found = repetition(query, earlier, rule, n)
    overlap, shares = slow_repetition(query, earlier, n, nearest=rule is JACCARD)
    assert found.overlap == pytest.approx(overlap)
    assert found.shares == pytest.approx(shares)


def test_words_and_their_places():
    text = "<think>a</think><search> Revenue, by region (2019)\n</search>"
    query = read_query(text, (text.index(" Revenue"), text.index("</search>")))
    assert query.words == ("revenue", "by", "region", "2019")
    assert [text[slice(*span)] for span in query.spans] == ["Revenue", "by", "region", "2019"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("??", ("?", "?")),
        ("\u5e74\u5ea6\u62a5\u544a 2019", ("\u5e74", "\u5ea6", "\u62a5", "\u544a", "2019")),
        ("\ufb01nance R\xe9-\n_\x0cSTRASSE \ue000", ("finance", "re", "_", "strasse")),
        ("?\xad?\u0301", ("?", "?")),
    ],
)
def test_what_a_word_is(text, words):
    assert read_query(text, (0, len(text))).words == words


def test_what_a_retriever_drops_makes_no_query_new():
    """Every character, as BM25 and as the models of words (MiniLM, ColBERT) read it."""
    plain = BertNormalizer(handle_chinese_chars=False)
    # plane 0 and the tags of plane 14; a sign that later versions of Unicode call a letter
    codes = {*range(0xD800), *range(0xF900, 0x10000), *range(0xE0000, 0xE0200)} - {ord("|"), 0x1734}
    known = (chr(code) for code in codes if unicodedata.category(chr(code)) != "Cn")
    texts = [text for text in known if text == " " or not text.isspace()]
    read = plain.normalize_str("|".join(texts)).split("|")
    assert [text for text, bert in zip(texts, read, strict=True) if fold(bert) != fold(text)] == []


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_words_are_the_tokens_of_bm25_and_have_their_places(text):
    query = read_query(f"<<{text}>>", (2, 2 + len(text)))
    tokens = Tokenizer()(text)
    assert list(query.words) == tokens or not tokens
    assert list(query.spans) == sorted(query.spans)
    assert all(2 <= start < end <= 2 + len(text) for start, end in query.spans)
