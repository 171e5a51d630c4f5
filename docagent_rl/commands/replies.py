"""Where a run keeps the replies that it paid for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.rewards.judge import JudgeKind

if TYPE_CHECKING:
    from omegaconf import DictConfig

REPLIES = "replies"


def keep_replies(run: DictConfig, model: ModelConfig, out: Path) -> tuple[DictConfig, ModelConfig]:
    """Have what a run asks kept in its folder, where nobody says another place.

    A trajectory that a spent budget or a kill cuts short is played again from its first turn: what was paid
    for is then taken from there, of the model as of the judge and the roles of the environment.

    Args:
        run: the composed configuration. It stays as it is: it says what the run is, wherever it lies.
        model: that plays.
        out: the folder of the run.

    Returns:
        The configuration to play by, and the model; what is behind an endpoint has its folder there.
    """
    replies, playing = out.resolve() / REPLIES, copy.deepcopy(run)
    judge = playing.docagent.judge
    asked = {"judge": judge} if judge.kind == JudgeKind.OPENAI.value else {}
    for name, section in {**asked, **(playing.docagent.roles or {})}.items():
        if section.get("base_url") and not section.get("cache_dir"):
            section["cache_dir"] = str(replies / str(name))
    if model.base_url and model.cache_dir is None:
        model = model.model_copy(update={"cache_dir": replies / "model"})
    return playing, model
