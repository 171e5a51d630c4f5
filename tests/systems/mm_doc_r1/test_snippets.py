from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.tokens import Tokenizer, fold, readable, spans
from docagent_rl.systems.mm_doc_r1.page_index import make_snippet

FILLER = "lorem ipsum dolor sit amet " * 30
HAN = "\u6587" * 200


@pytest.mark.parametrize(
    ("text", "words", "limit", "shown", "count"),
    [
        # the densest cluster, in which distinct words count for more than repetitions
        (f"emission {FILLER} plant {FILLER} the emission of the plant in 2021 {FILLER} emission",
         ["emission", "plant"], 60, "emission of the plant in 2021", 2),
        (f"tax tax tax tax tax {FILLER} tax rate {FILLER}", ["tax", "rate"], 40, "tax rate", 2),
        # without a match the beginning; first and last words
        (FILLER, ["needle"], 40, "lorem ipsum dolor", 0),
        (f"needle {FILLER}", ["needle"], 40, "needle lorem", 1),
        (f"{FILLER}needle", ["needle"], 40, "amet needle", 1),
        # tokens, not substrings; scripts without spaces
        (f"{FILLER} needles {FILLER} needle {FILLER}", ["needle"], 40, " needle ", 1),
        (f"{HAN}\u6392\u653e{HAN}", ["\u6392", "\u653e"], 40, "\u6392\u653e", 2),
        ("  a\n short\tpage ", ["short", "page", "x"], 40, "a short page", 2),
        ("", ["short"], 40, "", 0),
        # a reader that is not linear in the length would take minutes
        ("needle " * 20_000, ["needle"], 240, "needle needle", 1),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_shown(text, words, limit, shown, count):
    snippet = make_snippet(text, words, limit)
    assert shown in snippet.text
    assert snippet.words == count
    assert len(snippet.text) <= limit
    line = " ".join(text.split())
    assert ("\u2026" in snippet.text) == (len(line) > limit)
    assert snippet.text.startswith("\u2026") == (not line.startswith(snippet.text[:5]))


def test_the_cluster_is_in_the_middle_of_what_may_be_shown():
    with pytest.raises(UserError, match="max_chars=7"):
        make_snippet("text", [], 7)
    shown = make_snippet(f"{FILLER}needle {FILLER}", ["needle"], 100).text
    assert abs(shown.index("needle") + 3 - len(shown) / 2) < 15


TEXTS = st.text(alphabet="ab\u6587\ufb01 .\n", max_size=200)
WORDS = st.sets(st.sampled_from(["a", "b", "ab", "ba", "\u6587", "aab"]))


@settings(max_examples=60)
@given(TEXTS, WORDS, st.integers(8, 60))
def test_the_cluster_is_as_dense_as_any_window(text, query, limit):
    """Against all windows that begin and end with a match."""
    snippet = make_snippet(text, query, limit)
    line = " ".join(readable(text).split())
    assert snippet.text.strip("\u2026").strip() in line
    assert len(snippet.text) <= limit
    if len(line) <= limit:
        assert snippet.text == line
        return
    hits = [span for span in spans(line) if span[2] in query]
    windows = [(i, j) for i in range(len(hits)) for j in range(i, len(hits))]
    fitting = [hits[i : j + 1] for i, j in windows if hits[j][1] - hits[i][0] <= limit - 2]
    assert snippet.words == max((len({word for _, _, word in window}) for window in fitting), default=0)


def test_tokens_have_places():
    text = "Cafe\u0301 \uff21\xad\uff22 \u6392\u653e x_1 \ufb01n"
    assert [fold(text[start:end]) for start, end, _ in spans(text)] == Tokenizer()(text)
