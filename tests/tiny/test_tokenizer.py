from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen2Tokenizer

from docagent_rl.tiny.tokenizer import BPE_VOCABULARY, SPECIAL_TOKENS, build_tokenizer

TOKENIZER = build_tokenizer()


def test_ids_run_from_zero_without_holes() -> None:
    assert len(TOKENIZER) == BPE_VOCABULARY + len(SPECIAL_TOKENS)
    assert sorted(TOKENIZER.get_vocab().values()) == list(range(len(TOKENIZER)))


def test_special_tokens_are_one_id_and_vanish_on_request() -> None:
    for token in SPECIAL_TOKENS:
        assert TOKENIZER.encode(token) == [TOKENIZER.convert_tokens_to_ids(token)]
        assert TOKENIZER.decode(TOKENIZER.encode(f"a{token}b"), skip_special_tokens=True) == "ab"
    assert (TOKENIZER.eos_token, TOKENIZER.pad_token, TOKENIZER.bos_token) == (
        "<|im_end|>",
        "<|endoftext|>",
        None,
    )


@given(st.text())
def test_any_text_survives(text: str) -> None:
    # the tokenizer composes characters (NFC), as Qwen2's does
    composed = TOKENIZER.backend_tokenizer.normalizer.normalize_str(text)
    ids = TOKENIZER.encode(text, split_special_tokens=True)
    assert TOKENIZER.decode(ids) == composed


def test_builds_are_equal() -> None:
    again = build_tokenizer()
    assert again.backend_tokenizer.to_str() == TOKENIZER.backend_tokenizer.to_str()


def test_splits_like_qwen2() -> None:
    reference = Qwen2Tokenizer().backend_tokenizer
    ours = TOKENIZER.backend_tokenizer
    text = "<think>It's 2019: 3.5 kg</think><bbox>[12, 3]</bbox>\n\n  end"
    assert ours.pre_tokenizer.pre_tokenize_str(text) == reference.pre_tokenizer.pre_tokenize_str(text)


@pytest.mark.parametrize(
    ("text", "at_most"),
    [
        ("<think>I need the revenue.</think><search>revenue report</search>", 14),
        ("<think>I see.</think><bbox>[12, 30, 120, 210]</bbox>", 32),
        ("<think>I see.</think><answer>October</answer>", 15),
    ],
)
def test_turns_are_short(text: str, at_most: int) -> None:
    assert len(TOKENIZER.encode(text)) <= at_most


def test_tags_of_a_system_are_learnt_from_what_it_writes() -> None:
    own = build_tokenizer(["<think>I see.</think><magnify>42</magnify>"] * 60)
    assert len(own.encode("<magnify>")) <= 3 < len(TOKENIZER.encode("<magnify>"))


def test_words_of_given_texts_become_tokens() -> None:
    word = " polyglacial"
    assert len(TOKENIZER.encode(word)) > 1
    trained = build_tokenizer([f"Ask about{word} matters."] * 60)
    assert len(trained.encode(word)) == 1
    assert len(trained) == len(TOKENIZER)
