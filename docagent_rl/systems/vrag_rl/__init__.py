"""VRAG-RL's entry in the registry of systems."""

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.system import PaperJudge, System, Unearned
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.env import VragEnv

SYSTEM = System(
    name="vrag_rl",
    summary="search a corpus of page images, zoom into the last one, answer (arXiv 2505.22019)",
    config_type=VragConfig,
    env=VragEnv,
    make_grammar=VragEnv.make_grammar,
    prompt_spec=VragEnv.spec,
    outcome_metrics=OutcomeMetrics("judge_score", form="reward/format"),
    formula=lambda config: config.reward.formula,
    judged=True,
    paper_judge=PaperJudge.TRUE_FALSE_AFTER_SEARCH,
    agents="docagent_rl.systems.vrag_rl.script",
    small={"display": {"min_pixels": 12544, "max_pixels": 50176}, "search": {"scope": "document"}},
    unearned={
        "paper": Unearned(
            unknowing=0.19,
            plan=(
                "search for the question",
                "search for the question",
                "search for its second half",
                "search for the question",
                "answer the question",
            ),
            whose="The paper's: 0.2 of the reward is for finding the evidence (Eq. 12).",
        ),
        "released": Unearned(
            unknowing=0.29,
            plan=(
                "search for the question",
                "search for the question",
                "search for its second half",
                "search for the question",
                "answer the question",
            ),
            whose="The release's: 0.2 of the reward is for finding the evidence, 0.1 for format.",
        ),
    },
)
