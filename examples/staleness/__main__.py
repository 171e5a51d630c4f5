"""Compare trainer modes on trajectories whose durations differ greatly, under the CPU profile.

PYTHONPATH=examples python -m staleness --workspace $W --out staleness
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from staleness.table import read_run, table

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)

ASYNCHRONOUS = "trainer.v1.trainer_mode=docagent_colocate_async"
SAMPLER = "trainer.v1.sampler"
SETTINGS: dict[str, tuple[str, ...]] = {
    "sync": ("trainer.v1.trainer_mode=docagent_sync",),
    "colocate_async": (ASYNCHRONOUS,),
    "colocate_async, drop after 2": (ASYNCHRONOUS, f"{SAMPLER}.max_off_policy_threshold=2"),
    "colocate_async, wait at 2": (
        ASYNCHRONOUS,
        f"{SAMPLER}.max_off_policy_threshold=2",
        f"{SAMPLER}.max_off_policy_strategy=wait",
    ),
    "separate_async": (
        "trainer.v1.trainer_mode=docagent_separate_async",
        "trainer.v1.separate_async.parameter_sync_step=2",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=docagent_ray",
        "ray_kwargs.ray_init.num_gpus=2",
    ),
}
"""The settings that are compared: the overrides of each run, by the name in the table."""


@app.command()
def staleness_command(
    workspace: Annotated[Path, typer.Option(help="Workspace that `docagent-rl demo` made.")],
    out: Annotated[
        Path, typer.Option(help="Folder for the runs; finished ones are reused.")
    ] = Path("staleness"),
    steps: Annotated[int, typer.Option(help="Number of steps of each run.")] = 8,
    pause_s: Annotated[
        float, typer.Option(help="Seconds by which a third of the searches are delayed.")
    ] = 15.0,
) -> None:
    """Train with each setting, one after the other, and print a Markdown table."""
    for number, (name, overrides) in enumerate(SETTINGS.items()):
        folder = out.absolute() / str(number)
        if not (folder / "metrics" / f"{steps}.json").is_file():
            train(folder, workspace.absolute(), steps, pause_s, overrides)
        typer.echo(f"{name}: {folder}", err=True)
    rows = {name: read_run(out / str(number)) for number, name in enumerate(SETTINGS)}
    typer.echo(table(rows))


def train(
    folder: Path, workspace: Path, steps: int, pause_s: float, overrides: tuple[str, ...]
) -> None:
    """Run the trainer on the demo, without checkpoints, with a validation every four steps."""
    command = [
        sys.executable,
        *("-m", "verl.trainer.main_ppo"),
        *("--config-name", "vrag_rl_qwen3_vl_4b"),
        "+profile=cpu",
        f"docagent.workspace={workspace}",
        f"docagent.run_dir={folder}",
        "docagent.retriever.kind=staleness.slow:SlowRetriever",
        f"+docagent.retriever.options.pause_s={pause_s}",
        "docagent.retriever.service.timeout_s=60",
        "docagent.retriever.deadline_s=300",
        f"trainer.total_training_steps={steps}",
        "trainer.save_freq=-1",
        "trainer.val_before_train=false",
        "trainer.test_freq=4",
        *overrides,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("w") as log:
        environment = {**os.environ, "RAY_ADDRESS": "local"}
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT, env=environment)


if __name__ == "__main__":
    app()
