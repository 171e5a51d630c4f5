"""Qwen3.5, dense: sees as Qwen3-VL does; three of four layers are gated delta nets."""

from __future__ import annotations

from docagent_rl.models.family import Family, Positions
from docagent_rl.models.qwen3_vl import VISION

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
DELTA_NET = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj")

FAMILY = Family(
    name="qwen3_5",
    title="Qwen3.5",
    model_types=("qwen3_5",),
    vision=VISION,
    positions=Positions.MROPE,
    thinking="enable_thinking",
    linear=(*ATTENTION, *DELTA_NET, "gate_proj", "up_proj", "down_proj"),
)
