"""Budgets of recipes as Markdown: of one by part, and a page of all."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB, Line, budget
from docagent_rl.checks.budget_table import SUMMARY_HEAD, markdown, read_run, summary
from docagent_rl.checks.recipe_check import Cluster, composed
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.config import DocAgentConfig, plain

_INTRODUCTION = """\
# Memory

What each recipe takes, in GiB, on {gpus} of {memory:g} GiB, with the checkpoints that are kept.
Written by `{command}`;
`docagent-rl recipes budget RECIPE [overrides]` is for one, changed as you like. A run on GPUs prints the same
table before it starts, and is refused where it cannot fit.

Weights, gradients, optimizer states, gathered layers, the server's weights and its cache are counted. States
of layers, logits, processes and features are estimates, for the longest row with all the images that a
session may show; none has been measured on a GPU. The rollout fills the share of the GPU that its server is
given (`gpu_memory_utilization`). A retriever's index is in it once it is built.

"""


def budget_of_recipe(name: str, overrides: Sequence[str], cluster: Cluster, gpu_memory: float) -> str:
    """The parts of one recipe's budget.

    Args:
        name: the recipe.
        overrides: as on the command line.
        cluster: where it is to run.
        gpu_memory: GiB of a GPU.

    Raises:
        UserError: Hydra cannot compose it, or its model is not known here.
    """
    return markdown(_lines(name, composed(name, overrides), cluster, gpu_memory))


def budget_page(cluster: Cluster, gpu_memory: float) -> str:
    """All recipes on one machine, with the parts of the largest."""
    found = {name: _lines(name, composed(name), cluster, gpu_memory) for name in recipe_names()}
    nodes, gpus = cluster.nodes or 1, cluster.gpus_per_node or 8
    command = (
        f"docagent-rl recipes budget --nnodes {nodes} --gpus-per-node {gpus} --gpu-memory {gpu_memory:g}"
    )
    text = _INTRODUCTION.format(
        gpus=f"{nodes} node{'s' * (nodes > 1)} of {gpus} GPUs",
        memory=gpu_memory,
        command=command,
    )
    rows = [SUMMARY_HEAD, *(summary(name, lines) for name, lines in found.items())]
    parts = [f"\n## {name}\n\n{markdown(lines)}" for name, lines in found.items()]
    return text + "\n".join(rows) + "\n" + "".join(parts)


def _lines(name: str, config: DictConfig, cluster: Cluster, gpu_memory: float) -> list[Line]:
    config = OmegaConf.merge(config, cluster.change)  # ty: ignore[invalid-assignment]  (mappings make a mapping)
    run = read_run(config, DocAgentConfig.parse(plain(config.docagent)))
    if run is None:
        raise UserError(
            f"recipe {name}: {config.actor_rollout_ref.model.path} is neither a folder nor a model known here"
        )
    return budget(run, int(gpu_memory * GIB))
