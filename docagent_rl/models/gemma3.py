"""Gemma 3, text alone (arXiv 2503.19786): the checkpoint of 1B, or the language model of a larger one."""

from __future__ import annotations

from docagent_rl.models.family import Family

FAMILY = Family(name="gemma3", title="Gemma 3", model_types=("gemma3_text",))
