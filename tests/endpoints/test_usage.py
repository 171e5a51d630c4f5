import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.endpoints.usage import (
    Usage,
    image_part,
    message_tokens,
    reported_usage,
    text_tokens,
)


def picture(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(buffer, format="JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, Usage(12, 3)),
        *(
            (usage, None)
            for usage in (None, {}, {"prompt_tokens": -1, "completion_tokens": 2}, [1, 2])
        ),
    ],
)
def test_what_the_server_counts_is_read_if_it_can_be(usage, read):
    assert reported_usage(json.dumps({"usage": usage}).encode()) == read


def test_images_count_by_their_pixels():
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "abcd"}, image_part(picture(280, 560))],
    }
    assert message_tokens([message]) == 4 + 1 + 200


@given(st.text(max_size=80), st.text(max_size=80))
def test_estimates_grow_with_the_text(first, second):
    assert (
        text_tokens(first)
        <= text_tokens(first + second)
        <= text_tokens(first) + text_tokens(second)
    )
