"""Qwen3.5, dense: sees as Qwen3-VL does; three of four layers are gated delta nets."""

from __future__ import annotations

from docagent_rl.models.family import Family
from docagent_rl.models.qwen3_vl import VISION

FAMILY = Family(name="qwen3_5", title="Qwen3.5", model_types=("qwen3_5",), vision=VISION)
