"""ALDEN's entry in the registry of systems."""

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.system import PaperJudge, System, Unearned
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv

SYSTEM = System(
    name="alden",
    summary="search one long document, fetch its pages by number, answer (arXiv 2510.25668)",
    config_type=AldenConfig,
    env=AldenEnv,
    make_grammar=AldenEnv.make_grammar,
    prompt_spec=AldenEnv.spec,
    outcome_metrics=OutcomeMetrics("reward/answer", form="reward/format", full_form=0),
    formula=lambda config: config.formula,
    reward_keys=(
        "reward",
        "query_repetition",
        "answer_metric",
        "numeric_metric",
        "polar_exact",
        "remember_malformed",
    ),
    two_rankings=lambda config: config.two_rankings,
    paper_judge=PaperJudge.LABEL,
    agents="docagent_rl.systems.alden.script",
    # the release's (qwen2_5_vl_7b_doc_agent_generation.sh); the paper does not say
    test_temperature={"paper": 0.2, "released": 0.2},
    small={
        "max_turns": 5,
        "ocr_tokens": 48,
        "display": {"min_pixels": 12544, "max_pixels": 50176},
        "image_budget": {"images": 4},
    },
    padding={
        "paper": (
            "Eq. 3 rewards every call separately. A repeated query earns its precision again, and "
            "the penalty for the repetition (Eq. 5) is equally large, so the sum over a trajectory "
            "does not rise; but the penalty stays in its turn, while `turn_gae` credits the "
            "precision to earlier turns too. Finding the same page with other words earns its "
            "precision again, fetching a page again earns its proximity minus 0.5, and a page near "
            "a gold one earns its proximity. `docagent.env.reward.search=new_gold` and "
            "`docagent.env.reward.eta_fetch=1` remove rewards for repeated pages. With "
            "`docagent.advantage.gamma_turn=0.9`, ALDEN's own value, a call whose reward is below "
            "a tenth of the answer's lowers the return. `docagent/repeated_call_rate` measures "
            "repetition."
        ),
        "released": (
            "Fetching a page near a gold one is rewarded with at most 0.18, once per page."
        ),
    },
    unearned={
        "paper": Unearned(
            unknowing=0.67,
            plan=(
                "fetch page 3",
                "fetch the middle page",
                "search for its first half",
                "fetch the last page",
                "search for its second half",
                "answer 1 2 3 4 5 6 7 8 9 0",
            ),
            whose=(
                "The paper's: Eq. 3 rewards every call separately, even for a page near the "
                "evidence, and its character F1 rewards any digits if the answer is a number. "
                "docagent.env.reward.search=new_gold, docagent.env.reward.eta_fetch=1 and "
                "docagent.env.numeric_metric=word_f1 change that."
            ),
            knowing=1.46,
            knowing_plan=(
                "fetch the evidence",
                "search for the evidence in other words",
                "fetch the evidence",
                "search for the question and as much padding",
                "search for the evidence",
                "answer right",
            ),
        ),
        "released": Unearned(
            unknowing=0.28,
            plan=(
                "fetch the last page",
                "fetch page 3",
                "fetch page 1",
                "fetch the middle page",
                "search for the question backwards",
                "answer 1 2 3 4 5 6 7 8 9 0",
            ),
            whose="The release's: gold pages are rewarded when they are first shown, and other "
            "pages for being near them.",
            knowing=1.06,
            knowing_plan=(
                "fetch page 3",
                "fetch the middle page",
                "fetch the last page",
                "fetch page 1",
                "search for the question",
                "answer right",
            ),
        ),
    },
)
