"""Doc-V*'s entry in the registry of systems."""

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.system import System, Unearned
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv

SYSTEM = System(
    name="doc_v_star",
    summary="overview of one document by thumbnails, pages by retrieval or number, answer (Doc-V*)",
    config_type=DocVStarConfig,
    env=DocVStarEnv,
    make_grammar=DocVStarEnv.make_grammar,
    prompt_spec=DocVStarEnv.spec,
    outcome_metrics=OutcomeMetrics("reward/answer", form="reward/format"),
    formula=lambda config: config.reward.formula,
    reward_keys=("reward", "answer"),
    cites=True,
    agents="docagent_rl.systems.doc_v_star.script",
    small={
        "max_turns": 4,
        "overview": {"cell_px": 56, "header_px": 28, "fit_cells_px": [42, 28]},
        "display": {"long_side": 224, "short_side": 168},
        "retrieval": {"max_pages": 2},
        "fetch": {"max_pages": 2},
        "context_tokens": 2560,
        "reserve_tokens": 64,
    },
    unearned={
        "paper": Unearned(
            unknowing=0.14,
            plan=(
                "fetch pages 1 to 4",
                "fetch pages 1 to 4",
                "search for the question",
                "search for its second half",
                "fetch pages 9 to 12",
                "fetch pages 5 to 8",
                "fetch pages 1 to 4 and list all pages",
                "answer the question",
            ),
            whose="The paper's: its evidence term weights recall twice, so listing every page is "
            "rewarded.",
        ),
    },
)
