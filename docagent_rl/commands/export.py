"""`docagent-rl export`: write the weights of a run or a checkpoint in transformers' format."""

from pathlib import Path

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.commands.options import argument, option


def export_command(
    model: str = argument(..., "A run, or a checkpoint global_step_<n>."),
    out: Path | None = option(None, "New folder for the model; default: <checkpoints>/merged/."),
) -> None:
    """Merge a run's checkpoint, adapters included, into a model in transformers' format.

    Prints the model's folder. `eval --model` and `ask --model` merge checkpoints themselves. A
    complete model is used as it is.

    Example: docagent-rl export workspace/runs/sft_vrag_rl_qwen2_5_vl_7b --out models/sft
    """
    import shutil

    from docagent_rl.base.io import atomic_dir
    from docagent_rl.training.engine.checkpoint import weights_folder

    if not Path(model).expanduser().is_dir():
        raise UserError(f"{model}: no such folder")
    if out is not None and out.exists():
        raise UserError(f"{out} already exists: name a new folder")
    folder = Path(weights_folder(model))
    if out is not None:
        with atomic_dir(out) as target:
            shutil.copytree(folder, target, dirs_exist_ok=True)
        folder = out
    typer.echo(folder)
