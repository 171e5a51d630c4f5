"""ALDEN, as the registry of systems knows it."""

from __future__ import annotations

from docagent_rl.envs.measures import Marks
from docagent_rl.envs.system import System
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import ALDEN_PROMPT, AldenEnv, make_grammar
from docagent_rl.systems.alden.pen import AldenPen
from docagent_rl.systems.alden.script import AldenScript

SMALL = {
    "max_turns": 5,
    "ocr_tokens": 48,
    "display": {"min_pixels": 12544, "max_pixels": 50176},
    "image_budget": {"images": 4},
}
"""Sizes for a tiny model on one core."""

SYSTEM = System(
    name="alden",
    summary="search one long document, fetch its pages by number, answer (arXiv 2510.25668)",
    config_type=AldenConfig,
    env=AldenEnv,
    make_grammar=make_grammar,
    prompt_spec=ALDEN_PROMPT,
    default_prompt=lambda config: config.prompt,
    max_turns=lambda config: config.assistant_turns,
    max_images=lambda config: config.max_images,
    marks=Marks("reward/answer", form="reward/format", full_form=0),
    formula=lambda config: config.formula,
    reward_keys=(
        "reward",
        "query_repetition",
        "answer_metric",
        "numeric_metric",
        "polar_exact",
        "list_scoring",
        "remember_malformed",
    ),
    two_rankings=lambda config: config.two_rankings,
    pen=AldenPen,
    script=AldenScript,
    small=SMALL,
)
