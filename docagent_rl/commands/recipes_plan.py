"""`docagent-rl recipes plan`: which GPU does what in a run, and the commands that start it."""

from enum import StrEnum

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.checks.cards import card_memory, seen, usable
from docagent_rl.checks.placement.compose import compose_file
from docagent_rl.checks.placement.demand import Pool
from docagent_rl.checks.placement.read import read_needs
from docagent_rl.checks.placement.refusal import require_plan
from docagent_rl.checks.placement.slurm import slurm_script
from docagent_rl.checks.placement.table import plan_page
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, require_recipes
from docagent_rl.commands.options import argument, option


class PlanFormat(StrEnum):
    """A form in which a plan is printed."""

    TABLE = "table"
    COMPOSE = "compose"
    SLURM = "slurm"


def plan_command(
    recipe: str = argument(..., "Name or file of a recipe."),
    overrides: list[str] | None = argument(None, "Overrides, as in the launch command."),
    gpus: int = option(8, "Number of all GPUs.", min=1),
    gpu_memory: str = option("80GB", "Memory of one GPU, as for `recipes budget`."),
    nodes: int = option(1, "Number of nodes, which share the GPUs equally.", min=1),
    form: PlanFormat = option(
        PlanFormat.TABLE,
        "A table with the commands, a file of Docker Compose, or a batch script of Slurm.",
        "--format",
    ),
) -> None:
    """Print which GPUs trainer, judge and roles get, and how to start them.

    Memory is that of `recipes budget`. The trainer gets as many GPUs as it can use, roles with the
    same model share a server, and a server needs no GPU here if its address is on another machine.
    A run that does not fit is refused with what would fit. No GPU is needed.

    Example: docagent-rl recipes plan mm_doc_r1_qwen3_8b --gpus 8 --gpu-memory h100
    """
    require_recipes([recipe], kind=TrainerKind.RL)
    if gpus % nodes:
        raise UserError(f"--gpus {gpus} cannot be shared equally by --nodes {nodes}")
    words = overrides or []
    memory = card_memory(gpu_memory)
    config = composed_recipe(recipe, words)
    needs = read_needs(recipe, config, memory)
    if not needs.layouts:
        raise UserError(
            f"recipe {recipe}: the sizes of {config.actor_rollout_ref.model.path} are not known: "
            "download the model, and set actor_rollout_ref.model.path to its folder"
        )
    pool = Pool(nodes, gpus // nodes, usable(memory))
    plan = require_plan(needs, pool)
    match form:
        case PlanFormat.TABLE:
            text = plan_page(needs, plan, pool, seen(memory), words)
        case PlanFormat.COMPOSE:
            text = compose_file(needs, plan, seen(memory), words)
        case PlanFormat.SLURM:
            text = slurm_script(needs, plan, pool.gpus_per_node, seen(memory), words)
    typer.echo(text, nl=False)
