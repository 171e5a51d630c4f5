"""A run for each system and each kind of estimator, two with switches of verl turned on, one on two
ranks. Recipes that differ from these only in the model and in sizes are checked without a run.
"""

import json
import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed_recipe
from tests.e2e import grpo
from tests.e2e.conftest import RECIPE, Run, add_model
from tests.e2e.custom import SHORT
from tests.e2e.ranks import TWO_RANKS

RECIPES = (
    "alden_hybrid_qwen2_5_vl_7b",  # turn-level GAE, a value model
    "doc_v_star_qwen2_5_vl_7b",  # GRPO
    "mm_doc_r1_qwen3_4b",  # SPO
    "unidoc_rl_qwen2_5_vl_7b",
    RECIPE,  # visual tokens of another size, boxes in another unit
)
"""The recipes that `make test` plays."""

TERM = "reward/page_recall"


REJECTING = "alden_hybrid_qwen2_5_vl_7b"
"""A recipe with one row per trajectory, a critic and a KL on observations."""
FILTERING = "mm_doc_r1_qwen3_4b"
"""A recipe with three rows per trajectory and SPO."""
SWITCHES = {
    REJECTING: (
        # the server samples from nine tenths of the mass, so that its log-probs are above the
        # trainer's
        "actor_rollout_ref.rollout.top_p=0.9",
        "docagent.kl.observation.type=exact",
        "docagent.loss.aggregation=turn",
        "algorithm.rollout_correction.rollout_rs='token_k1,seq_mean_k1'",
        # some tokens, and some rows: the second is about the median of a row's mean ratio
        "algorithm.rollout_correction.rollout_rs_threshold='0.5_1.04,0.5_1.015'",
    ),
    FILTERING: ("algorithm.filter_groups.enable=true", f"algorithm.filter_groups.metric={TERM}"),
}
"""Switches of verl, by recipe."""

RANKS = {FILTERING: (*TWO_RANKS, "trainer.save_freq=1")}
"""Two data-parallel ranks with a rollout replica each, in micro-batches by number of tokens. Such a
run is killed behind its first checkpoint, and goes on.
"""

LONGEST_FIRST = (*RANKS, "unidoc_rl_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", REJECTING)

RETRIEVERS = {"unidoc_rl_qwen2_5_vl_7b": "hybrid", "mm_doc_r1_qwen3_4b": "minilm"}
"""Retrievers of recipes that do not use BM25; the hybrid of ALDEN finds images by BM25 and texts by
MiniLM. The asynchronous run finds them by late interaction over page images.
"""

QUESTIONS = {"doc_v_star_qwen2_5_vl_7b": 12, FILTERING: 6, REJECTING: 4, RECIPE: 4}
"""Questions per step, each played by four trajectories. Some reward terms are rare, and every
term has to vary in any two steps: soon if groups of equal trajectories are left out, and not if
tokens are rejected.
"""
OTHER_QUESTIONS = 8
STEPS = (1, 2)
SYSTEMS = ("alden", "doc_v_star", "mm_doc_r1", "unidoc_rl", "vrag_rl")


def system_of(recipe: str) -> str:
    """Return the system that a recipe trains."""
    return next(system for system in SYSTEMS if recipe.startswith(system))


def questions(recipe: str) -> int:
    """Return the number of questions per step."""
    return QUESTIONS.get(recipe, OTHER_QUESTIONS)


def steps(recipe: str) -> range:
    """Return the steps of a recipe's run."""
    return range(1, 1 + (grpo.STEPS if recipe == RECIPE else STEPS[-1]))


def configuration(recipe: str) -> DictConfig:
    """Return the configuration of a recipe's run."""
    return composed_recipe(recipe, ["+profile=cpu", *extra(recipe)])


def extra(recipe: str) -> tuple[str, ...]:
    """Return the overrides of a recipe's run in addition to its steps."""
    retriever = [f"+retriever={RETRIEVERS[recipe]}"] if recipe in RETRIEVERS else []
    return (*retriever, *SWITCHES.get(recipe, ()), *RANKS.get(recipe, ()))


def chosen(session: pytest.Session) -> list[str]:
    """Return the recipes that the selected tests use."""
    names = {
        item.callspec.params.get("recipe") for item in session.items if hasattr(item, "callspec")
    }
    return [recipe for recipe in RECIPES if recipe in names]


def play(recipe: str, folder: Path, workspace: Path, python: Path) -> Run:
    """Play the steps of a recipe, and save the last one."""
    add_model(workspace, system_of(recipe), python)
    overrides = (
        *SHORT,
        f"trainer.total_training_steps={STEPS[-1]}",
        f"data.train_batch_size={questions(recipe)}",
        f"trainer.save_freq={STEPS[-1]}",
        *extra(recipe),
    )
    if recipe == FILTERING:
        overrides = (*overrides, f"data.train_files={facts(workspace, folder / 'train.parquet')}")
        # no demo is completed beside questions of one's own
        index = (
            "--store",
            workspace / "store",
            "--out",
            workspace / "index_minilm",
            "--model",
            "minilm",
        )
        subprocess.run([python, "-m", "docagent_rl.cli", "index", "build", *index], check=True)
    run = Run(folder, workspace, overrides, python, recipe=recipe)
    if recipe in RANKS:
        run.kill_when((run.run_dir / "checkpoints" / "global_step_1" / "manifest.json").is_file)
    run.finish()
    return run


def facts(workspace: Path, file: Path) -> Path:
    """Write the questions that a sentence answers, since the embedded models of MM-Doc-R1 do not
    know numbers of pages.
    """
    table = pq.read_table(workspace / "data" / "train.parquet")
    kinds = [json.loads(sample)["extra"].get("kind") for sample in table["sample"].to_pylist()]
    pq.write_table(table.filter(pc.equal(kinds, "text_fact")), file)
    return file
