"""Qwen3.5 with mixtures of experts: sees as the dense models do."""

from __future__ import annotations

from docagent_rl.models.family import Family
from docagent_rl.models.qwen3_vl import VISION

FAMILY = Family(name="qwen3_5_moe", title="Qwen3.5-MoE", model_types=("qwen3_5_moe",), vision=VISION)
