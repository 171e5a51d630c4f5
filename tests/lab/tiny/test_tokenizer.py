from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen2Tokenizer

from docagent_rl.lab.tiny.tokenizer import BPE_VOCABULARY, SPECIAL_TOKENS, build_tokenizer

TOKENIZER = build_tokenizer()


def test_ids_run_from_zero_without_holes():
    assert len(TOKENIZER) == BPE_VOCABULARY + len(SPECIAL_TOKENS)
    assert sorted(TOKENIZER.get_vocab().values()) == list(range(len(TOKENIZER)))


def test_special_tokens_are_one_id_and_vanish_on_request():
    for token in SPECIAL_TOKENS:
        assert TOKENIZER.encode(token) == [TOKENIZER.convert_tokens_to_ids(token)]
        assert TOKENIZER.decode(TOKENIZER.encode(f"a{token}b"), skip_special_tokens=True) == "ab"
    assert (TOKENIZER.eos_token, TOKENIZER.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert TOKENIZER.bos_token is None


@settings(max_examples=50)
@given(st.text())
def test_any_text_survives(text):
    # the tokenizer composes characters (NFC), as Qwen2's does
    composed = TOKENIZER.backend_tokenizer.normalizer.normalize_str(text)
    assert TOKENIZER.decode(TOKENIZER.encode(text, split_special_tokens=True)) == composed


def test_splits_like_qwen2():
    text = "<think>It's 2019: 3.5 kg</think><bbox>[12, 3]</bbox>\n\n  end"
    ours, reference = (
        each.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text) for each in (TOKENIZER, Qwen2Tokenizer())
    )
    assert ours == reference


def test_tags_and_words_of_a_system_are_learnt_from_what_it_writes():
    texts = ["<think>I see.</think><magnify>42</magnify>", "Ask about polyglacial matters."] * 60
    own, again = build_tokenizer(texts), build_tokenizer(texts)
    assert len(own.encode("<magnify>")) <= 3 < len(TOKENIZER.encode("<magnify>"))
    assert len(own.encode(" polyglacial")) == 1 < len(TOKENIZER.encode(" polyglacial"))
    assert len(own) == len(TOKENIZER)
    assert own.backend_tokenizer.to_str() == again.backend_tokenizer.to_str()
