"""MM-Doc-R1's entry in the registry of systems."""

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.system import System, Unearned
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from docagent_rl.systems.mm_doc_r1.world import check_question

SYSTEM = System(
    name="mm_doc_r1",
    summary="plan, search a long document by keywords, have pages read, let another model write "
    "the answer",
    config_type=MMDocConfig,
    env=MMDocEnv,
    make_grammar=MMDocEnv.make_grammar,
    prompt_spec=MMDocEnv.spec,
    shows_images=False,
    model_family="qwen3",
    outcome_metrics=OutcomeMetrics("reward/correctness"),
    formula=lambda config: config.reward.formula,
    reward_keys=("reward", "answer"),
    roles=tuple(RoleName),
    role_tokens=lambda config: config.role_tokens,
    role_images=lambda config: {RoleName.READER: config.read.max_pages},
    check_sample=check_question,
    agents="docagent_rl.systems.mm_doc_r1.script",
    several_rows=True,
    small={
        "max_steps": 3,
        "plan": {"max_items": 4, "max_headings": 12, "max_figures": 6},
        "search": {"top_k": 4, "snippet_chars": 80},
        "read": {"note_tokens": 64},
        "history": {"prompt_tokens": 1200, "reasoning_words": 30, "shortened_note_chars": 80},
    },
    unearned={
        "paper": Unearned(
            unknowing=0.5,
            plan=("read pages 1 to 6", "search for the question", "read pages 7 to 12", "finish"),
            whose=(
                "The paper's: half of the reward is the recall of pages, which reading all 18 "
                "pages of a document in three steps maximises, whatever the question is. "
                "docagent.env.reward.page_term=f1 counts precision too."
            ),
        ),
    },
)
