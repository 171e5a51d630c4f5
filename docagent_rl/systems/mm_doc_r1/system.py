"""MM-Doc-R1, as the registry of systems knows it."""

from __future__ import annotations

from docagent_rl.envs.measures import Marks
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.system import System
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MM_DOC_PROMPT, MMDocEnv, make_grammar
from docagent_rl.systems.mm_doc_r1.pen import MMDocPen
from docagent_rl.systems.mm_doc_r1.script import MMDocScript
from docagent_rl.systems.mm_doc_r1.world import check_sample

SMALL = {
    "max_steps": 3,
    "plan": {"max_items": 4, "max_headings": 12, "max_figures": 6},
    "search": {"top_k": 4, "snippet_chars": 80},
    "read": {"note_tokens": 64},
    "history": {"prompt_tokens": 1200, "reasoning_words": 30, "shortened_note_chars": 80},
}
"""Sizes for a tiny model on one core."""

SYSTEM = System(
    name="mm_doc_r1",
    summary="plan, search a long document by keywords, have pages read, let another write the answer",
    config_type=MMDocConfig,
    env=MMDocEnv,
    make_grammar=make_grammar,
    prompt_spec=MM_DOC_PROMPT,
    default_prompt=lambda config: config.prompt,
    max_turns=lambda config: config.assistant_turns,
    max_images=lambda config: config.max_images,
    marks=Marks("reward/correctness"),
    formula=lambda config: config.reward.rule().formula,
    reward_keys=("reward", "answer"),
    roles=tuple(RoleName),
    check_sample=check_sample,
    pen=MMDocPen,
    script=MMDocScript,
    several_rows=True,
    small=SMALL,
)
