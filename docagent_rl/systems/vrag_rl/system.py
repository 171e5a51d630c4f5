"""VRAG-RL, as the registry of systems knows it."""

from __future__ import annotations

from docagent_rl.envs.measures import Marks
from docagent_rl.envs.system import PaperJudge, System
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VRAG_PROMPT, VragEnv, make_grammar
from docagent_rl.systems.vrag_rl.pen import VragPen
from docagent_rl.systems.vrag_rl.script import VragScript

SMALL = {"display": {"min_pixels": 12544, "max_pixels": 50176}, "search": {"scope": "document"}}
"""Sizes for a tiny model on one core."""

SYSTEM = System(
    name="vrag_rl",
    summary="search a corpus of page images, zoom into the last one, answer (arXiv 2505.22019)",
    config_type=VragConfig,
    env=VragEnv,
    make_grammar=make_grammar,
    prompt_spec=VRAG_PROMPT,
    default_prompt=lambda config: config.prompt,
    max_turns=lambda config: config.assistant_turns,
    max_images=lambda config: config.max_images,
    marks=Marks("reward/outcome", form="reward/format"),
    formula=lambda config: config.reward.rule().formula,
    judged=True,
    paper_judge=PaperJudge.TRUE_FALSE_AFTER_SEARCH,
    pen=VragPen,
    script=VragScript,
    small=SMALL,
)
