"""`docagent-rl rehearse`: run a recipe at its own size on a CPU, with a tiny model."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from docagent_rl.checks.recipe_list import TrainerKind, require_recipes
from docagent_rl.commands.options import Overrides, Recipe, option


def rehearse_command(
    recipe: Recipe,
    overrides: Overrides = None,
    *,
    out: Path = option(..., "Folder of the rehearsal; its documents are used again."),
    steps: int = option(2, "Training steps.", min=1),
    share: float = option(
        1.0, "Share of the recipe's batch that is played and trained.", min=0.001, max=1.0
    ),
    ranks: int = option(1, "Data-parallel ranks, each with a rollout server.", min=1),
    workers: int = option(2, "Agent workers.", min=1),
    search_s: float = option(0.0, "Seconds that a search takes in addition to BM25's.", min=0),
    judge_s: float = option(0.0, "Seconds that a verdict takes.", min=0),
    sampled: int = option(32, "Tokens of each turn that the server samples.", min=1),
) -> None:
    """Run a recipe with its own batch, turns, contexts and images on a CPU, and measure it.

    The model is tiny, and a script writes its turns, so that rows are as long as they may be:
    everything around the model has its full size. OUT gets rehearsal.md and rehearsal.json: seconds
    by part, memory by process, prompt tokens computed and needed, lag of the event loop, bytes
    between processes. See docs/performance.md.

    Example: docagent-rl rehearse vrag_rl_qwen2_5_vl_7b --out rehearsal --share 0.125
    """
    require_recipes([recipe], kind=TrainerKind.RL)
    from docagent_rl.lab.rehearsal.rehearsing import rehearse_recipe
    from docagent_rl.lab.rehearsal.settings import RehearsalSettings

    settings = RehearsalSettings(
        steps=steps,
        share=share,
        ranks=ranks,
        workers=workers,
        search_s=search_s,
        judge_s=judge_s,
        sampled=sampled,
    )
    found = rehearse_recipe(recipe, out, settings, overrides or ())
    Console().print(Markdown(found.to_markdown()))
