from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.generate import replies
from docagent_rl.generate.replies import Answered, UnreadableError, Written, read_reply

SHAPES = (Written, Answered, replies.Guessed, replies.Cleared, replies.Labelled)
NAMES = st.sampled_from(["questions", "question", "answer", "answerable", "pages", "label", "clear"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=200) | JSON.map(json.dumps), st.sampled_from(SHAPES))
def test_a_reply_is_of_the_shape_or_unreadable(text, shape):
    try:
        found = read_reply(text, shape)
    except UnreadableError:
        return
    assert shape.model_validate(found.model_dump()) == found


@given(st.booleans(), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_what_was_written_is_read(answerable, answer):
    text = json.dumps({"answerable": answerable, "answer": answer})
    expected = Answered(answerable=answerable, answer=answer)
    for reply in (text, f"```json\n{text}\n```", f"<think>hm</think>\n{text}"):
        if "\u200b" not in answer and "```" not in answer and "</think>" not in answer:
            assert read_reply(reply, Answered) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<think>never ends",
        '{"answerable": "true", "answer": "x"}',
        '{"answer": "x"}',
        '{"answerable": true, "answer": true}',
        '{"answerable": true, "answer": ["x"]}',
        '[{"answerable": true}]',
        '{"answerable": true, "answer": "x"} and so on',
        '```json\n{"answerable": true}\n```\n```json\n{"answerable": false}\n```',
        '{"answerable": true, "answer": "\\ud800"}',
        "[" * 90_000,
        '{"answerable": true, "answer": "' + "x" * 200_000 + '"}',
    ],
)
def test_what_is_anything_else_does_not_count(text):
    with pytest.raises(UnreadableError) as caught:
        read_reply(text, Answered)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("value", "text"), [(3.5, "3.5"), (None, "")])
def test_a_number_is_an_answer(value, text):
    assert read_reply(json.dumps({"answerable": True, "answer": value}), Answered).answer == text


@pytest.mark.parametrize("pages", [[0], [1.5], ["1"], [True]])
def test_pages_are_numbers_from_one(pages):
    with pytest.raises(UnreadableError):
        read_reply(json.dumps({"questions": [{"question": "q", "answer": "a", "pages": pages}]}), Written)
