"""Every recipe, as its first line says: one for each system and kind of estimator for two steps,
siblings of these for one, two recipes with switches of verl turned on and one on two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import recipe_names
from tests.e2e.conftest import Run, add_model
from tests.e2e.custom import SHORT
from tests.e2e.ranks import TWO_RANKS

RECIPES = tuple(recipe_names())

CORE = (
    "alden_qwen2_5_vl_7b",  # turn-level GAE, a value model
    "doc_v_star_qwen2_5_vl_7b",  # GRPO
    "mm_doc_r1_qwen3_8b",  # SPO
    "unidoc_rl_qwen2_5_vl_7b",
    "vrag_rl_qwen2_5_vl_7b",
)
"""A run for each system and each kind of estimator: what `make test` plays."""

TERM = "reward/page_recall"


def rejection(row: float) -> tuple[str, ...]:
    """Some tokens and some rows: `row` is about the median of a row's mean ratio of server and trainer."""
    return (
        # the server samples from nine tenths of the mass, so that its log-probs are above the trainer's
        "actor_rollout_ref.rollout.top_p=0.9",
        "algorithm.rollout_correction.rollout_rs='token_k1,seq_mean_k1'",
        f"algorithm.rollout_correction.rollout_rs_threshold='0.5_1.04,0.5_{row}'",
    )


SWITCHES = {
    # one row a session, a critic, a KL on observations
    "alden_hybrid_qwen2_5_vl_7b": rejection(1.018),
    # three rows a session, verl's own GRPO
    "mm_doc_r1_qwen3_8b_grpo": (
        *rejection(1.0135),
        "algorithm.filter_groups.enable=true",
        f"algorithm.filter_groups.metric={TERM}",
    ),
}
"""Switches of verl, by recipe."""

RANKS = {"mm_doc_r1_qwen3_4b": TWO_RANKS}
"""SPO over several rows a session, on two data-parallel ranks with a replica each."""

WITHOUT_CREDIT = "vrag_rl_qwen2_5_vl_3b"
"""Stores nothing of what tokens are credited with."""

RETRIEVERS = {
    "vrag_rl_qwen2_5_vl_3b": "tiny_colqwen2",  # late interaction over page images
    "unidoc_rl_qwen2_5_vl_3b": "hybrid",
    "mm_doc_r1_qwen3_4b_grpo": "minilm",
}
"""What finds pages where it is not BM25; the hybrid of ALDEN finds images by BM25 and texts by MiniLM."""

QUESTIONS = {"alden": 12, "doc_v_star": 12}
"""Questions a step, each played by four sessions; the profile takes 4. Some reward terms are rare, and every
one is to vary in any two steps."""
OTHER_QUESTIONS = 8
SIBLING_QUESTIONS = 4
SYSTEMS = ("alden", "doc_v_star", "mm_doc_r1", "unidoc_rl", "vrag_rl")


def system_of(recipe: str) -> str:
    """The system that a recipe trains."""
    return next(system for system in SYSTEMS if recipe.startswith(system))


def is_sibling(recipe: str) -> bool:
    """Whether it differs from another recipe in few values, and plays one step of few questions."""
    return recipe not in CORE and recipe not in SWITCHES


def questions(recipe: str) -> int:
    """Questions a step."""
    if is_sibling(recipe):
        return SIBLING_QUESTIONS
    return QUESTIONS.get(system_of(recipe), OTHER_QUESTIONS)


def steps(recipe: str) -> tuple[int, ...]:
    """The steps that are played."""
    return (1,) if is_sibling(recipe) else (1, 2)


def configuration(recipe: str) -> DictConfig:
    """What the run is composed of."""
    return composed(recipe, ["+profile=cpu", *extra(recipe)])


def extra(recipe: str) -> tuple[str, ...]:
    """What its run is told beside the steps."""
    retriever = [f"+retriever={RETRIEVERS[recipe]}"] if recipe in RETRIEVERS else []
    stored = ["docagent.credit=false"] if recipe == WITHOUT_CREDIT else []
    return (*retriever, *stored, *SWITCHES.get(recipe, ()), *RANKS.get(recipe, ()))


def chosen(session: pytest.Session) -> list[str]:
    """The recipes that the chosen tests look at."""
    names = {item.callspec.params.get("recipe") for item in session.items if hasattr(item, "callspec")}
    return [recipe for recipe in RECIPES if recipe in names]


def play(recipe: str, folder: Path, workspace: Path, python: Path) -> Run:
    """The steps of a recipe; the last one is saved."""
    add_model(workspace, system_of(recipe))
    overrides = (
        *SHORT,
        f"trainer.total_training_steps={steps(recipe)[-1]}",
        f"data.train_batch_size={questions(recipe)}",
        f"trainer.save_freq={steps(recipe)[-1]}",
        *extra(recipe),
    )
    run = Run(folder, workspace, overrides, python, recipe=recipe)
    run.finish()
    return run
