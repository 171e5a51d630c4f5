from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.rollout.offsets import token_range


def pieces(processor, text):
    tokenizer = processor.tokenizer
    return tokenizer.encode(text, add_special_tokens=False), lambda ids: tokenizer.decode(list(ids))


def test_empty_and_outside_spans(processor):
    ids, decode = pieces(processor, "abc")
    assert token_range(decode, ids, (1, 1)) is None
    assert token_range(decode, ids, (5, 9)) is None
    assert token_range(decode, ids, (0, 99)) == (0, len(ids))


@settings(max_examples=60, deadline=None)
@given(text=st.text(alphabet=st.sampled_from("ab <>/é漢字😀1"), min_size=1, max_size=40), data=st.data())
def test_every_character_of_the_span_is_carried(processor, text, data):
    ids, decode = pieces(processor, text)
    decoded = decode(ids)
    start = data.draw(st.integers(0, len(decoded) - 1))
    end = data.draw(st.integers(start + 1, len(decoded)))
    first, last = token_range(decode, ids, (start, end))
    assert 0 <= first < last <= len(ids)
    before = decode(ids[:first]).rstrip("\ufffd")
    through = decode(ids[:last])
    assert len(before) <= start
    assert through.rstrip("\ufffd")[:end] == decoded[:end]
    # no token too many: without the first or the last one, a character of the span is missing
    assert len(decode(ids[: first + 1]).rstrip("\ufffd")) > start
    assert len(decode(ids[: last - 1]).rstrip("\ufffd")) < end
