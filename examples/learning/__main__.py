"""Train a tiny agent, and show whether it has learned.

PYTHONPATH=examples python -m learning --estimator grpo --seeds 0 --out workspace/learning
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.cli import main
from learning.choices import Arm, Estimator

if TYPE_CHECKING:
    from learning.summary import Summary

DEFAULT_STEPS = 60

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)


@app.command()
def learn_command(
    estimator: Annotated[
        list[Estimator] | None,
        typer.Option(help="An advantage estimator; repeatable. Default: grpo."),
    ] = None,
    seeds: Annotated[list[int] | None, typer.Option(help="A seed; repeatable. Default: 0.")] = None,
    arm: Annotated[
        list[Arm] | None,
        typer.Option(
            help="Train on the rewards, or on shuffled rewards as a control; repeatable. "
            "Default: reward."
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for all output; finished runs in it are reused.")
    ] = Path("workspace/learning"),
    steps: Annotated[
        int, typer.Option(min=1, help="Steps of reinforcement learning.")
    ] = DEFAULT_STEPS,
) -> None:
    """Train a tiny agent that must look at pages, and test whether it has learned.

    The command makes documents, fine-tunes a tiny Qwen2.5-VL on an oracle's trajectories until some
    of its answers are right (the warm start), and trains it further with verl. The trained agent is
    compared with the warm start on held-out documents, and both are also tested with blank pages.
    The control trains on rewards that are shuffled between trajectories. Results are written to
    results.json and learning.svg; finished runs are not repeated.

    Example: PYTHONPATH=examples python -m learning --seeds 0 --seeds 1 --out learning
    """
    from learning.demonstration import all_done, demonstrate
    from learning.plan import LearnSettings
    from learning.summary import summarise
    from tools.warm import WarmPython

    chosen = {
        "estimators": estimator or [Estimator.GRPO],
        "seeds": seeds or [0],
        "arms": arm or [Arm.REWARD],
    }
    # every run starts a dozen processes with the same imports, which a warm Python has done before
    with nullcontext() if all_done(out, **chosen) else WarmPython() as warm:
        results = demonstrate(
            out,
            **chosen,
            settings=LearnSettings(steps=steps),
            progress=True,
            python=warm.executable if warm else None,
        )
    Console().print(_table(summarise(results)))
    typer.echo(f"{out / 'results.json'}, {out / 'learning.svg'}")


def _table(summaries: list[Summary]) -> Table:
    table = Table(title="Held-out reward: mean and 95 % confidence interval over the seeds")
    for heading in (
        "estimator",
        "trained on",
        "seeds",
        "warm start",
        "trained",
        "gain",
        "right",
        "right, blank",
    ):
        table.add_column(heading)
    for s in summaries:
        # with a single seed, the interval is over its questions
        gain = s.gain if len(s.seeds) > 1 else s.gains[0]
        numbers = (s.before, s.after, gain, s.accuracy, s.blank)
        table.add_row(
            s.estimator.value, s.arm.value, " ".join(map(str, s.seeds)), *map(str, numbers)
        )
    return table


if __name__ == "__main__":
    main(app)
