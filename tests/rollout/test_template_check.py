"""Templates by which turns can be rendered one at a time, and those by which they cannot."""

from __future__ import annotations

import copy

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.tokenizer import CHAT_TEMPLATE, build_tokenizer
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.template_check import check_template
from tests.thinking_template import THINKING_TEMPLATE

BEFORE, EACH = "", "{{- '<|im_start|>' ~ message.role ~ '\n' ~ message.content ~ '<|im_end|>\n' -}}"
TAIL = "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"


def template(each=EACH, over="messages", before=BEFORE, tail=TAIL):
    return f"{before}{{%- for message in {over} -%}}{each}{{%- endfor -%}}{tail}"


NO_SYSTEM = "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system') }}{%- endif -%}"
FIRST = EACH.replace("message.role", "('Q' if loop.first else message.role)")
DATED = "{{- strftime_now('%d %b %Y') -}}"


@pytest.fixture(scope="module")
def checked():
    tokenizer = build_tokenizer()

    def check(text, **arguments):
        tokenizer.chat_template = text
        check_template(ChatCodec(tokenizer, template_kwargs=tuple(arguments.items())))

    return check


@pytest.mark.parametrize(
    "text",
    [
        CHAT_TEMPLATE,  # adds a system prompt
        THINKING_TEMPLATE,  # leaves earlier thoughts out
        template(EACH.replace("message.content", "message.content | trim")),
        template(before=NO_SYSTEM),
        template(FIRST),
        template(before="{%- if not day -%}" + DATED + "{%- endif -%}"),
    ],
)
def test_good_ones(checked, text):
    checked(text, day="today")


def test_images_have_their_place(processor):
    check_template(ChatCodec(processor.tokenizer, processor))
    blind = copy.copy(processor)
    blind.chat_template = template()
    with pytest.raises(UserError, match="loses an image"):
        check_template(ChatCodec(processor.tokenizer, blind))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (template(EACH.replace("message.content", "message.content | upper")), "text of a message"),
        (template(EACH.replace("message.content", "message.content | e")), "text of a message"),
        (template(EACH.replace("message.content", "message.content.split() | join(' ')")), "text of a"),
        (template(EACH.replace("message.role", "message.role ~ loop.index")), "by their position"),
        (template(EACH.replace("message.role", "message.role ~ loop.revindex")), "earlier messages"),
        (template(over="messages[-2:]"), "earlier messages"),
        (
            template(EACH.replace("message.content", "(message.content if message.role != 'assistant')")),
            "said",
        ),
        (template(before=DATED), "the date"),
        (template(tail=TAIL.replace("assistant", "assistant' ~ (messages | length) ~ '")), "position"),
        (template(tail=TAIL.replace("assistant", "assistant' ~ (messages | length > 2) ~ '")), "opens"),
        (template(EACH.replace("~ '<|im_end|>", "~ ('' if loop.last else ' ') ~ '<|im_end|>")), "earlier"),
    ],
)
def test_bad_ones_are_refused_by_what_they_do(checked, text, told):
    with pytest.raises(UserError, match=told):
        checked(text)
