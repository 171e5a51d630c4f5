"""UniDoc-RL's entry in the registry of systems."""

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.system import PaperJudge, System, Unearned
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv

SYSTEM = System(
    name="unidoc_rl",
    summary="search candidate pages, select one, magnify its regions, answer (arXiv 2604.14967)",
    config_type=UniDocConfig,
    env=UniDocEnv,
    make_grammar=UniDocEnv.make_grammar,
    prompt_spec=UniDocEnv.spec,
    outcome_metrics=OutcomeMetrics("judge_score", form="reward/format"),
    formula=lambda config: config.reward.formula,
    reward_keys=("reward", "format", "selection"),
    judged=True,
    paper_judge=PaperJudge.TRUE_FALSE,
    cites=True,
    agents="docagent_rl.systems.unidoc_rl.script",
    small={
        "max_turns": 4,
        "image_limit": 5,
        "display": {"min_pixels": 12544, "max_pixels": 50176},
        "search": {"scope": "document"},
    },
    padding={
        "released": (
            "The selection and the box term are means over the searches, and a search without a "
            "gold candidate counts as right: additional searches for anything, with their first "
            "candidate selected and no box drawn, bring both terms close to 1 even if the searches "
            "that mattered failed. Three of them raise a trajectory that selected a wrong page "
            "from 0.9 to 0.975. A perfect trajectory gains nothing. The paper's Eq. 7 has the same "
            "mean for the selection; the variant `paper` leaves such searches out of it "
            "(`reward.select_capped`), and its box term is a mean over boxes."
        ),
    },
    unearned={
        "paper": Unearned(
            unknowing=0.29,
            plan=(
                "search for the question and as much padding",
                "select 0",
                "draw the whole page",
                "select 2",
                "select 2",
                "search for x",
                "draw the whole page",
                "select 0",
                "answer the question",
            ),
            whose="The paper's: 0.4 of the reward is for search, selection, boxes and format (Eq. "
            "9).",
        ),
        "released": Unearned(
            unknowing=0.38,
            plan=(
                "search for the question and as much padding",
                "search for the question backwards",
                "search for its second half",
                "search for the question",
                "search for its second half",
                "search for the question backwards",
                "search for its first half",
                "select 0",
                "search for its first half",
                "answer the question",
            ),
            whose=(
                "The paper's weights; the release counts searches without a gold candidate as "
                "right in the selection and the box term."
            ),
        ),
    },
)
