"""Show the average effect of each advantage estimator, as a page and a picture.

PYTHONPATH=examples python -m bias_card --out docs
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from docagent_rl.base.outputs import Force, write_outputs
from docagent_rl.cli import main

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)


@app.command()
def bias_card_command(
    out: Annotated[Path, typer.Option(help="Folder for bias_card.md and bias_card.svg.")] = Path(
        "workspace/bias_card"
    ),
    group_size: Annotated[int, typer.Option(help="Trajectories in a group, from 2 to 64.")] = 4,
    go_on: Annotated[float, typer.Option(help="p, the probability of going on.")] = 0.3,
    good: Annotated[
        float, typer.Option(help="q, the probability of picking well after that.")
    ] = 0.6,
    stop_reward: Annotated[float, typer.Option(help="a, the reward for stopping.")] = 1.0,
    go_on_reward: Annotated[float, typer.Option(help="c, the reward for going on.")] = 0.4,
    good_reward: Annotated[float, typer.Option(help="b1, the reward for picking well.")] = 2.0,
    bad_reward: Annotated[float, typer.Option(help="b0, the reward for picking badly.")] = 0.5,
    similarity: Annotated[
        float, typer.Option(help="Cosine similarity of stopping and going on (SPO).")
    ] = 0.6,
    module: Annotated[
        list[str] | None,
        typer.Option(help="Module that registers custom estimators; repeatable."),
    ] = None,
    force: Force = False,
) -> None:
    """Compare the expected gradient of each advantage estimator with the true one.

    The problem has two turns. All groups of trajectories are enumerated and given to the project's
    estimators and to your own. The same options produce identical files.

    Example: PYTHONPATH=examples python -m bias_card --group-size 8 --out card
    """
    # torch and matplotlib take seconds to load, and --help should not
    from bias_card.card import bias_card
    from bias_card.page import bias_page
    from bias_card.plot import bias_plot
    from bias_card.rows import bias_rows
    from bias_card.toy import Toy
    from docagent_rl.base.user_code import import_module

    modules = module or []
    for name in modules:
        import_module(name, f"--module {name}")
    toy = Toy(go_on, good, stop_reward, go_on_reward, good_reward, bad_reward)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        measured = bias_card(toy, group_size, similarity, modules)
        card = list(
            progress.track(
                measured,
                total=len(bias_rows(similarity, modules)),
                description="enumerating groups",
            )
        )
    page = bias_page(card, toy, group_size, similarity)
    picture = bias_plot(card, group_size)
    write_outputs({out / "bias_card.svg": picture, out / "bias_card.md": page}, force=force)
    table = Table("estimator", "going on", "picking well", "verdict")
    for each in card:
        ratios = (f"{round(ratio, 3) + 0.0:.3f}" for ratio in each.ratio)
        table.add_row(Text(each.row.name.replace("`", "")), *ratios, each.explanation)
    console = Console()
    console.print(table)
    console.print("expected gradient / true gradient, by decision")
    for name in ("bias_card.md", "bias_card.svg"):
        console.print(str(out / name), markup=False, highlight=False)


if __name__ == "__main__":
    main(app)
