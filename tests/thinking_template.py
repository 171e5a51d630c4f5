"""A chat template that drops earlier thoughts, as Qwen3's does."""

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
"""Jinja source with the semantics of Qwen3: thoughts of earlier turns are dropped from a rendered
history, and `enable_thinking=False` opens the assistant's turn with an empty thought. Text only.
"""
