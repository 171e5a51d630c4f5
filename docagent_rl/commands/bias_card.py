"""`docagent-rl bias-card`: what each advantage estimator does on average."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from docagent_rl.io import atomic_write


def bias_card_command(
    out: Annotated[Path, typer.Option(help="Folder of bias_card.md and bias_card.svg.")] = Path("docs"),
    group_size: Annotated[int, typer.Option(help="Sessions a group, 2 to 64.")] = 4,
    go_on: Annotated[float, typer.Option(help="p, the probability of going on.")] = 0.3,
    good: Annotated[float, typer.Option(help="q, the probability of picking well after that.")] = 0.6,
    stop_pay: Annotated[float, typer.Option(help="a, the reward for stopping.")] = 1.0,
    go_on_pay: Annotated[float, typer.Option(help="c, the reward for going on.")] = 0.4,
    good_pay: Annotated[float, typer.Option(help="b1, the reward for picking well.")] = 2.0,
    bad_pay: Annotated[float, typer.Option(help="b0, the reward for picking badly.")] = 0.5,
    similarity: Annotated[float, typer.Option(help="Cosine between stopping and going on (SPO).")] = 0.6,
) -> None:
    """Compare the expected gradient of each advantage estimator with the true one, in a problem of two turns.

    All groups of sessions are enumerated and given to the estimators that train. The same options give the
    same bytes.

    Example: docagent-rl bias-card --group-size 8 --out card
    """
    # torch and matplotlib take seconds to load, and --help should not
    from docagent_rl.advantages.bias_card import bias_card
    from docagent_rl.advantages.bias_page import bias_page
    from docagent_rl.advantages.bias_plot import bias_plot
    from docagent_rl.advantages.bias_rows import bias_rows
    from docagent_rl.advantages.toy import Toy

    toy = Toy(go_on, good, stop_pay, go_on_pay, good_pay, bad_pay)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        measured = bias_card(toy, group_size, similarity)
        card = list(
            progress.track(measured, total=len(bias_rows(similarity)), description="enumerating groups")
        )
    atomic_write(out / "bias_card.svg", bias_plot(card, group_size))
    atomic_write(out / "bias_card.md", bias_page(card, toy, group_size, similarity))
    table = Table("estimator", "going on", "picking well", "verdict")
    for each in card:
        ratios = (f"{round(ratio, 3) + 0.0:.3f}" for ratio in each.ratio)
        table.add_row(Text(each.row.name.replace("`", "")), *ratios, each.explanation)
    console = Console()
    console.print(table)
    console.print("expected gradient / true gradient, by decision")
    for name in ("bias_card.md", "bias_card.svg"):
        console.print(str(out / name), markup=False, highlight=False)
