"""A page on what recipes take of GPU memory, host memory and disk."""

from __future__ import annotations

from collections.abc import Sequence

from docagent_rl.base.errors import UserError
from docagent_rl.checks.budget import GIB, Line, Place, budget, total
from docagent_rl.checks.budget_table import gib, markdown, read_run
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
trajectory may show; none has been measured on a GPU. The rollout fills the share of the GPU that its server
is given (`gpu_memory_utilization`). A retriever's index is in it once it is built.

"""


def budget_of_recipe(name: str, overrides: Sequence[str], cluster: Cluster, gpu_memory: float) -> list[Line]:
    """List the budget of one recipe on GPUs of `gpu_memory` GiB, with overrides as on the command line.

    Raises:
        UserError: Hydra cannot compose it, or its model is not known here.
    """
    config = composed(name, overrides)
    config.merge_with(cluster.change)
    run = read_run(config, DocAgentConfig.parse(plain(config.docagent)))
    if run is None:
        raise UserError(
            f"recipe {name}: {config.actor_rollout_ref.model.path} is neither a folder nor a model known here"
        )
    return budget(run, int(gpu_memory * GIB))


def budget_page(nodes: int, gpus: int, gpu_memory: float) -> str:
    """Write a page on all recipes on one machine, with the parts of each."""
    found = {name: budget_of_recipe(name, (), Cluster(nodes, gpus), gpu_memory) for name in recipe_names()}
    command = (
        f"docagent-rl recipes budget --nnodes {nodes} --gpus-per-node {gpus} --gpu-memory {gpu_memory:g}"
    )
    machine = f"{nodes} node{'s' * (nodes > 1)} of {gpus} GPUs"
    rows = [f"| recipe | {' | '.join(Place)} |\n|---|{'---:|' * len(Place)}"]
    for name, lines in found.items():
        rows.append(f"| `{name}` | {' | '.join(gib(total(lines, place)) for place in Place)} |")
    parts = [f"\n## {name}\n\n{markdown(lines)}" for name, lines in found.items()]
    text = _INTRODUCTION.format(gpus=machine, memory=gpu_memory, command=command)
    return text + "\n".join(rows) + "\n" + "".join(parts)
