"""The estimators of this package, by name."""

from __future__ import annotations

from docagent_rl.advantages.grpo import grpo
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.spo import spo
from docagent_rl.advantages.token_gae import token_gae
from docagent_rl.advantages.turn_gae import turn_gae
from docagent_rl.advantages.turn_grpo import turn_grpo

register("turn_gae", needs=(Need.VALUES,))(turn_gae)
register("token_gae", needs=(Need.VALUES,))(token_gae)
register("spo", needs=(Need.EMBEDDINGS,))(spo)
# `grpo` is verl's own: one total a row group, unbiased deviation
register("session_grpo")(grpo)
register("turn_grpo")(turn_grpo)
