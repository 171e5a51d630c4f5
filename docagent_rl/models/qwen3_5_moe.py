"""Qwen3.5 with mixtures of experts: sees as the dense models do."""

from __future__ import annotations

from docagent_rl.models.family import Family, Positions
from docagent_rl.models.qwen3_5 import ATTENTION, DELTA_NET
from docagent_rl.models.qwen3_vl import VISION

FAMILY = Family(
    name="qwen3_5_moe",
    title="Qwen3.5-MoE",
    model_types=("qwen3_5_moe",),
    vision=VISION,
    positions=Positions.MROPE,
    thinking="enable_thinking",
    linear=(*ATTENTION, *DELTA_NET),  # experts are one tensor a layer, no linear layers
)
