"""The chat template of the tiny checkpoint, with the semantics of Qwen2.5-VL-Instruct."""

from __future__ import annotations

SYSTEM_TURN = "You are a helpful assistant."
"""Text of the system turn that is added when a conversation does not open with one."""

CHAT_TEMPLATE = (
    """\
{#- Every turn is `<|im_start|>role, newline, content, <|im_end|>, newline`. -#}
{%- set seen = namespace(images=0, videos=0) -%}
{%- if messages[0]['role'] != 'system' -%}
    {{- '<|im_start|>system\\n"""
    + SYSTEM_TURN
    + """<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' ~ message['role'] ~ '\\n' -}}
    {%- if message['content'] is string -%}
        {{- message['content'] -}}
    {%- else -%}
        {%- for part in message['content'] -%}
            {%- if part['type'] == 'image' or 'image' in part or 'image_url' in part -%}
                {%- set seen.images = seen.images + 1 -%}
                {%- if add_vision_id -%}
                    {{- 'Picture ' ~ seen.images ~ ': ' -}}
                {%- endif -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part['type'] == 'video' or 'video' in part -%}
                {%- set seen.videos = seen.videos + 1 -%}
                {%- if add_vision_id -%}
                    {{- 'Video ' ~ seen.videos ~ ': ' -}}
                {%- endif -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif 'text' in part -%}
                {{- part['text'] -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""
)
"""Jinja source. Images and videos become their placeholder between `<|vision_start|>` and `<|vision_end|>`;
`add_vision_id=True` numbers them; `add_generation_prompt=True` opens the assistant's turn."""

THINKING_TEMPLATE = """\
{#- A thought belongs to the last turn alone: history is shown without it. -#}
{%- set last = namespace(question=-1) -%}
{%- for message in messages -%}
    {%- if message.role == 'user' -%}{%- set last.question = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in messages -%}
    {%- set content = message.content -%}
    {{- '<|im_start|>' ~ message.role ~ '\\n' -}}
    {%- if message.role == 'assistant' -%}
        {%- set thought = '' -%}
        {%- if '</think>' in content -%}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') -%}
        {%- endif -%}
        {%- if loop.index0 > last.question and (loop.last or thought) -%}
            {{- '<think>\\n' ~ thought ~ '\\n</think>\\n\\n' -}}
        {%- endif -%}
    {%- endif -%}
    {{- content ~ '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
    {%- if enable_thinking is defined and enable_thinking is false -%}
        {{- '<think>\\n\\n</think>\\n\\n' -}}
    {%- endif -%}
{%- endif -%}
"""
"""Jinja source with the semantics of Qwen3: thoughts of earlier turns are dropped from a rendered history,
and `enable_thinking=False` opens the assistant's turn with an empty thought. Text only."""
