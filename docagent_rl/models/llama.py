"""Llama 2 and 3, text alone (arXiv 2407.21783)."""

from __future__ import annotations

from docagent_rl.models.family import Family

FAMILY = Family(name="llama", title="Llama", model_types=("llama",))
