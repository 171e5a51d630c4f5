"""Compute the budgets of the papers' recipes for `recipes/papers/shared/sizes.yaml`.

`docagent-rl reproduce --dry-run` reads that file, so that it needs to import neither torch nor
verl.
"""

from __future__ import annotations

from typing import Any

import yaml
from omegaconf import DictConfig

from docagent_rl.checks.budget import MemoryKind, total
from docagent_rl.checks.budget_table import GIB, read_run
from docagent_rl.checks.cards import card_memory
from docagent_rl.checks.recipe_check import Cluster, budget_of_recipe, composed_recipe
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.lab.papers.manifest import paper_systems, read_paper

GPUS = (8,)
"""The numbers of GPUs, on one node, for which the file has an update's memory."""
HEAD = """\
# Sizes of the papers' recipes, by `docagent-rl recipes budget`.
# Written by `python -m tools.paper_pages`.
# passes: operations per parameter and token over a row: log-probs of policy and reference, the
# update with its second forward pass, and as much of a critic. tokens: of the longest trajectory.
"""


def sizes_text() -> str:
    """Return the text of the file."""
    found = {}
    for system in paper_systems():
        for model in read_paper(system).models:
            found[model.recipe] = _sizes(model.recipe)
    return HEAD + yaml.safe_dump(found, sort_keys=True)


def _sizes(recipe: str) -> dict[str, Any]:
    config = composed_recipe(recipe)
    run = read_run(config, DocAgentConfig.parse(plain_section(config.docagent)))
    assert run is not None, recipe
    card = card_memory("80GB")
    updates = {}
    for gpus in GPUS:
        lines = budget_of_recipe(recipe, (), Cluster(1, gpus), card)
        updates[gpus] = round(total(lines, MemoryKind.UPDATE) / GIB, 1)
    lines = budget_of_recipe(recipe, (), Cluster(), card)
    return {
        "parameters": run.trained[0].model.parameters,
        "tokens": _tokens(config),
        "trajectories": int(config.actor_rollout_ref.rollout.n),
        "epochs": int(config.trainer.total_epochs),
        "passes": _passes(run),
        "tensor_parallel": int(config.actor_rollout_ref.rollout.tensor_model_parallel_size),
        "disk_gib": round(total(lines, MemoryKind.DISK) / GIB, 1),
        "update_gib": updates,
    }


def _tokens(config: DictConfig) -> int:
    """Return the most tokens of a trajectory; if each turn is a row, those of all its turns."""
    row = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    steps = config.docagent.env.get("max_steps") or 1
    return row * int(steps)


def _passes(run: Any) -> int:
    """Return operations per parameter and token of all passes over whole rows."""
    policy = 2 + 8  # log-probs; forward, forward again, backward
    reference = 2 if run.reference is not None else 0
    critic = 2 + 8 if len(run.trained) > 1 else 0
    return policy + reference + critic
