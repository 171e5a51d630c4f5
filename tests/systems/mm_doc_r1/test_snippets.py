from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.errors import UserError
from docagent_rl.retrieval.tokens import Tokenizer, normalise, spans
from docagent_rl.systems.mm_doc_r1.snippets import make_snippet

FILLER = "lorem ipsum dolor sit amet " * 30


def test_the_densest_cluster_is_shown():
    text = f"emission {FILLER} plant {FILLER} the emission of the plant in 2021 {FILLER} emission"
    snippet = make_snippet(text, ["emission", "plant"], 60)
    assert "emission of the plant in 2021" in snippet.text
    assert snippet.words == 2
    assert snippet.text.startswith("\u2026")
    assert snippet.text.endswith("\u2026")
    assert len(snippet.text) <= 60


def test_the_cluster_is_in_the_middle():
    text = f"{FILLER}needle {FILLER}"
    shown = make_snippet(text, ["needle"], 100).text
    at = shown.index("needle") + 3
    assert abs(at - len(shown) / 2) < 15


def test_distinct_words_count_for_more_than_repetitions():
    text = f"tax tax tax tax tax {FILLER} tax rate {FILLER}"
    assert "tax rate" in make_snippet(text, ["tax", "rate"], 40).text


def test_short_pages_are_shown_whole():
    assert make_snippet("  a\n short\tpage ", ["short"], 40) == make_snippet("a short page", ["short"], 40)
    assert make_snippet("a short page", ["short", "page", "x"], 40).words == 2
    assert make_snippet("", ["short"], 40).text == ""


def test_without_a_match_the_beginning_is_shown():
    snippet = make_snippet(FILLER, ["needle"], 40)
    assert snippet.words == 0
    assert snippet.text.startswith("lorem ipsum")
    assert snippet.text.endswith("\u2026")


def test_first_and_last_words():
    assert make_snippet(f"needle {FILLER}", ["needle"], 40).text.startswith("needle lorem")
    assert make_snippet(f"{FILLER}needle", ["needle"], 40).text.endswith("amet needle")


def test_matches_are_tokens_not_substrings():
    text = f"{FILLER} needles {FILLER} needle {FILLER}"
    assert make_snippet(text, ["needle"], 40).words == 1
    assert "needles" not in make_snippet(text, ["needle"], 40).text


def test_scripts_without_spaces():
    text = "\u6587" * 200 + "\u6392\u653e" + "\u6587" * 200
    assert "\u6392\u653e" in make_snippet(text, ["\u6392", "\u653e"], 40).text


def test_limits():
    with pytest.raises(UserError, match="max_chars=7"):
        make_snippet("text", [], 7)


words = st.text(alphabet="ab\u6587\ufb01 .\n", max_size=200)


@given(words, st.sets(st.sampled_from(["a", "b", "ab", "ba", "\u6587", "aab"])), st.integers(8, 60))
def test_bounds_and_content(text, query, limit):
    snippet = make_snippet(text, query, limit)
    assert len(snippet.text) <= limit
    line = " ".join(normalise(text).split())
    assert snippet.text.strip("\u2026").strip() in line
    shown = {token for _, _, token in spans(line)} & query
    assert snippet.words <= len(shown)
    if len(line) <= limit:
        assert snippet.text == line


@given(words, st.integers(8, 40))
def test_the_cluster_is_as_dense_as_any_window(text, limit):
    """Against all windows that begin and end with a match."""
    query = {"a", "b", "\u6587"}
    line = " ".join(normalise(text).split())
    if len(line) <= limit:
        return
    hits = [span for span in spans(line) if span[2] in query]
    best = max(
        (
            len({word for _, _, word in hits[i : j + 1]})
            for i in range(len(hits))
            for j in range(i, len(hits))
            if hits[j][1] - hits[i][0] <= limit - 2
        ),
        default=0,
    )
    assert make_snippet(text, query, limit).words == best


def test_tokens_have_places():
    text = normalise("Caf\u00e9 \uff21\uff22 \u6392\u653e x_1")
    assert [token for _, _, token in spans(text)] == Tokenizer()(text)
    assert [text[start:end].lower() for start, end, _ in spans(text)] == Tokenizer()(text)


def test_long_pages():
    """A reader that is not linear in the length would take minutes."""
    make_snippet("needle " * 200_000, ["needle"], 240)
