"""VRAG-RL, as the registry of systems knows it."""

from docagent_rl.envs.base import Marks
from docagent_rl.envs.system import PaperJudge, System
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv

SYSTEM = System(
    name="vrag_rl",
    summary="search a corpus of page images, zoom into the last one, answer (arXiv 2505.22019)",
    config_type=VragConfig,
    env=VragEnv,
    make_grammar=VragEnv.make_grammar,
    prompt_spec=VragEnv.spec,
    marks=Marks("judge_score", form="reward/format"),
    formula=lambda config: config.reward.formula,
    judged=True,
    paper_judge=PaperJudge.TRUE_FALSE_AFTER_SEARCH,
    agents="docagent_rl.systems.vrag_rl.script",
    small={"display": {"min_pixels": 12544, "max_pixels": 50176}, "search": {"scope": "document"}},
)
