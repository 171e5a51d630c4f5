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
