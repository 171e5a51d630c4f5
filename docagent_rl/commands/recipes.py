"""`docagent-rl recipes` and `docagent-rl prompts`: list, show and check recipes and prompts."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table
from rich.text import Text

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import prompt_file, prompt_names
from docagent_rl.base.text import shown
from docagent_rl.checks.budget_table import budget_markdown
from docagent_rl.checks.cards import card_memory, seen
from docagent_rl.checks.encoder_cost import encoder_markdown
from docagent_rl.checks.gpu_report import measured_rates
from docagent_rl.checks.provenance import Printed, ProvenanceSource, read_provenance
from docagent_rl.checks.rates import Rates, rates_markdown
from docagent_rl.checks.recipe_check import (
    Cluster,
    RecipeFinding,
    budget_with_encoder,
    check_overridden,
    check_recipe,
    composed_recipe,
    filled_recipe,
    step_time_of_recipe,
)
from docagent_rl.checks.recipe_list import (
    TrainerKind,
    ablation_names,
    ablation_recipes,
    ablation_row,
    ablation_summary,
    located,
    recipe_kind,
    recipe_line,
    recipe_names,
    recipe_summary,
    require_recipes,
)
from docagent_rl.checks.step_time import time_markdown
from docagent_rl.commands.options import argument, option
from docagent_rl.commands.recipes_easyr1 import from_easyr1_command
from docagent_rl.commands.recipes_plan import plan_command
from docagent_rl.config import plain_section
from docagent_rl.systems import SYSTEMS, get_system
from docagent_rl.training.settings.divisibility import NODES, PER_NODE

_KINDS = {
    TrainerKind.RL: ("reinforcement learning", "python"),
    TrainerKind.SFT: (
        "supervised fine-tuning (docs/sft.md)",
        "torchrun --standalone --nproc-per-node GPUS",
    ),
}
app = typer.Typer(
    help="List recipes, show where settings come from, check them, and compute their memory."
)
app.command("from-easyr1")(from_easyr1_command)
prompts_app = typer.Typer(
    help="Show the prompts of the systems, and check files of your own.", no_args_is_help=True
)

Names = Annotated[
    list[str] | None, typer.Argument(help="Recipes; default: all.", metavar="[NAME]...")
]
Nodes = Annotated[int | None, typer.Option("--nnodes", min=1, help="Number of nodes.")]
GpuMemory = Annotated[
    str,
    typer.Option(
        help="Memory of one GPU: a card (h100, a100-80, h200, l40s, a6000, rtx4090, ...), a "
        "nominal size (24GB, 40GB, 48GB, 80GB, 141GB), or the GiB that nvidia-smi reports."
    ),
]
Gpus = Annotated[
    int | None, typer.Option("--gpus-per-node", min=1, help="Number of GPUs per node.")
]


@app.callback(invoke_without_command=True)
def list_command(context: typer.Context) -> None:
    """List the recipes, one line each; `docagent-rl recipes show` has the details.

    Example: docagent-rl recipes
    """
    if context.invoked_subcommand is not None:
        return
    for kind, (title, program) in _KINDS.items():
        typer.echo(f"{title}: {program} -m {kind.value} --config-name RECIPE")
        _echo_columns(
            (name, line.title, line.hardware)
            for name in recipe_names(kind=kind)
            for line in [recipe_line(name)]
        )
        typer.echo()
    typer.echo("+profile=cpu                      runs any of them small, on a laptop")
    typer.echo(
        "docagent-rl recipes show RECIPE   shows what it reproduces and where settings come from"
    )
    typer.echo(
        "--config-name base docagent.system=package.module:SYSTEM   runs a system of your own"
    )


@app.command("show")
def show_command(name: str = argument(..., "Name or file of a recipe.")) -> None:
    """Show what a recipe reproduces, its reward, and where each setting comes from.

    A setting is printed in the paper, taken from the released code, chosen here, or different from
    the paper.

    Example: docagent-rl recipes show alden_qwen2_5_vl_7b
    """
    name, root = located(name)
    require_recipes([name], root)
    console = Console()
    console.print(Text(recipe_summary(name, root)))
    config = composed_recipe(name, root=root)
    if recipe_kind(name, root) is TrainerKind.RL:
        _show_reward(config, console)
    found = read_provenance(name, root)
    values = filled_recipe(config)
    tables = {
        "Printed:": [
            (key, _printed(paper, OmegaConf.select(values, key)))
            for key, paper in found.printed.items()
        ]
    }
    for source in ProvenanceSource:
        tables[source.heading] = [
            ("\n".join(keys), text) for keys, text in found.notes.get(source, ())
        ]
    for title, rows in tables.items():
        if rows:
            key = Column("key", overflow="fold")
            table = Table(key, "what", title=title, title_justify="left", show_lines=True)
            for row in rows:
                table.add_row(*map(Text, row))
            console.print(table)


def _printed(paper: Printed, here: Any) -> str:
    """Return a paper's value, where it is printed, and the recipe's own value if it differs."""
    text = f"{paper.value} ({paper.where})"
    return text if here == paper.value else f"{text}; here {'null' if here is None else here}"


def _show_reward(config: DictConfig, console: Console) -> None:
    """Print the reward formula of a composed recipe, and what can be earned without an answer."""
    from docagent_rl.lab.viewer.folder import reward_of  # of this command alone

    reward = reward_of(config)
    if reward is None:
        return
    console.print(Text(f"reward: {reward.formula}"))
    system = get_system(config.docagent.system)
    if system.unearned:
        variant = system.parse_config(plain_section(config.docagent.env)).variant
        console.print(Text(f"rewarded without knowing: {system.unearned[variant]}"))


@app.command("ablations")
def ablations_command(names: Names = None) -> None:
    """List the ablations, and the row of the paper that each reproduces, if any.

    Example: docagent-rl recipes ablations vrag_rl_qwen2_5_vl_7b
    """
    require_recipes(names or [])
    _echo_columns(
        (ablation, f"{ablation_summary(ablation)} {_row_of_paper(ablation)}")
        for ablation in ablation_names()
        if not names or set(names) & set(ablation_recipes(ablation))
    )
    typer.echo()
    typer.echo("python -m verl.trainer.main_ppo --config-name RECIPE +ablations=ABLATION")


def _row_of_paper(ablation: str) -> str:
    row = ablation_row(ablation)
    return "" if row == "not a row of the paper" else f"[paper: {row}]"


def _echo_columns(rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text, a line each, which no width of a terminal breaks."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(f"  {'  '.join(cells).rstrip()}")


@app.command("check")
def recipes_check_command(
    names: list[str] | None = argument(
        None, "Recipes, then overrides of their keys.", metavar="[NAME]... [KEY=VALUE]..."
    ),
    nnodes: Nodes = None,
    gpus_per_node: Gpus = None,
    gpu_memory: str | None = option(
        None,
        "Memory of one GPU, as for `recipes budget`, for the check of what fits; default: 80GB if "
        "a number of GPUs or nodes is given.",
    ),
) -> None:
    """Check recipes, by name or file (all by default), without running them.

    Keys, types, prompts, token budgets and estimators are checked, and whether batch sizes can be
    divided among the recipe's GPUs (or --nnodes and --gpus-per-node). Each recipe is checked as it
    is, with its CPU profile, and with each ablation; if overrides are given, only with them. If
    GPUs are named, trainer and services with loopback addresses have to fit on them, as in
    `recipes plan`. The exit status is 1 if there are problems.

    Example: docagent-rl recipes check vrag_rl_qwen2_5_vl_7b data.train_batch_size=128 --nnodes 2
    """
    overrides = [word for word in names or () if "=" in word]
    names = [word for word in names or () if "=" not in word]
    if overrides and not names:
        raise UserError(f"{overrides[0]} is an override: name the recipe to which it applies")
    counts = tuple(f"{key}=" for key in (NODES, PER_NODE))
    if nnodes or gpus_per_node or any(word.startswith(counts) for word in overrides):
        gpu_memory = gpu_memory or "80GB"
    memory = None if gpu_memory is None else card_memory(gpu_memory)
    cluster = Cluster(nnodes, gpus_per_node, memory)
    places = [located(name) for name in names or recipe_names(kind=None)]
    for name, root in places:
        require_recipes([name], root)
    table = Table("recipe", "checked", Column("verdict", overflow="fold"), show_lines=True)
    failed = False
    for name, root in track(places, "checking", console=Console(stderr=True), transient=True):
        if overrides:
            findings = [check_overridden(name, overrides, root, cluster)]
        else:
            findings = check_recipe(name, root, cluster=cluster)
        table.add_row(findings[0].recipe, str(len(findings)), _verdict(findings))
        failed |= any(finding.problem is not None for finding in findings)
    Console().print(table)
    if failed:
        raise typer.Exit(1)


@app.command("budget")
def budget_command(
    recipe: str = argument(..., "Name or file of a recipe."),
    overrides: list[str] | None = argument(None, "Overrides, as in the launch command."),
    nnodes: Nodes = None,
    gpus_per_node: Gpus = None,
    gpu_memory: GpuMemory = "80GB",
    time: bool = option(False, "Print the seconds of a step by part instead.", "--time"),
    row: int | None = option(None, "With --time: tokens of a row; default: the longest.", min=1),
    sampled: int | None = option(
        None, "With --time: sampled tokens of a row; default: 180 a turn.", min=1
    ),
    searches: int = option(0, "With --time: searches of a trajectory.", min=0),
    search_s: float = option(
        0.0, "With --time: seconds that the search service works for each search.", min=0
    ),
    measured: Path | None = option(
        None,
        "With --time: report of `make gpu-check` (gpu-check.json); what it measured replaces the "
        "formula's constants.",
    ),
) -> None:
    """Print how much GPU memory, host memory and disk a run needs, by part, as Markdown.

    With --time, it prints where the time of a step goes, with the formula of each part, and where
    each constant comes from; see docs/performance.md. Without it, a last table compares CPU cores
    and a GPU for the query encoder of the run's search actors. No GPU is needed. `recipes fit`
    recommends a recipe for a size of GPU.

    Example: docagent-rl recipes budget alden_qwen2_5_vl_7b trainer.nnodes=1 --gpu-memory h100
    """
    require_recipes([recipe], kind=TrainerKind.RL)
    if measured is not None and not time:
        raise UserError("--measured replaces constants of --time: add --time")
    if time:
        rates = Rates().with_measured({} if measured is None else measured_rates(measured))
        lines_of_step = step_time_of_recipe(
            recipe,
            overrides or [],
            Cluster(nnodes, gpus_per_node),
            gpu_memory,
            row=row,
            sampled=sampled,
            searches=searches,
            search_s=search_s,
            rates=rates,
        )
        typer.echo(f"{time_markdown(lines_of_step)}\n{rates_markdown(rates)}", nl=False)
        return
    cluster = Cluster(nnodes, gpus_per_node)
    memory = card_memory(gpu_memory)
    lines, cost = budget_with_encoder(recipe, overrides or [], cluster, gpu_memory)
    typer.echo(budget_markdown(lines), nl=False)
    if cost is not None:
        typer.echo(f"\n{encoder_markdown(cost, seen(memory))}", nl=False)


@app.command("fit")
def fit_command(
    nnodes: Nodes = None,
    gpus_per_node: Gpus = None,
    gpu_memory: GpuMemory = "80GB",
) -> None:
    """Print each system's largest run that fits on GPUs of a size, in full and with LoRA.

    The numbers are those of `recipes budget`, estimates included; 5 % of the GPU memory that
    programs can use stays free. No GPU is needed. The default is one GPU.

    Example: docagent-rl recipes fit --gpus-per-node 1 --gpu-memory rtx4090
    """
    from docagent_rl.checks.fit import fit_lines

    for line in fit_lines(Cluster(nnodes, gpus_per_node), card_memory(gpu_memory), sorted(SYSTEMS)):
        typer.echo(line)
        sys.stdout.flush()  # into a pipe, too


app.command("plan")(plan_command)


def _verdict(findings: Sequence[RecipeFinding]) -> Text:
    """Return a recipe's problems with the overrides that cause them, or `ok`.

    A problem that an ablation shares with the plain recipe is listed only once per profile.
    """
    plain = {each.profile: each.problem for each in findings if each.ablation is None}
    found = [each for each in findings if each.problem]
    distinct = (
        each for each in found if each.ablation is None or each.problem != plain.get(each.profile)
    )
    lines = [" ".join([*each.overrides, str(each.problem)]) for each in distinct]
    return Text("\n".join(lines), style="red") if lines else Text("ok", style="green")


@prompts_app.command("list")
def list_prompts_command() -> None:
    """List the prompts of the package.

    Example: docagent-rl prompts list
    """
    for name in prompt_names():
        typer.echo(name)


@prompts_app.command("show")
def show_prompt_command(
    name: str = argument(..., "A system, or a prompt of `prompts list`."),
) -> None:
    """Print the prompt file of a system, as a start for your own.

    Example: docagent-rl prompts show vrag_rl > mine.yaml
    """
    if name not in prompt_names():
        system = get_system(name)
        name = system.default_prompt(system.parse_config({}))
    typer.echo(prompt_file(name).read_text(encoding="utf-8"), nl=False)


@prompts_app.command("check")
def check_prompt_command(
    file: Path = argument(..., "A prompt file, .yaml."),
    system: str = option(..., "System that will use the prompt."),
    variant: str | None = option(
        None, "Variant (docagent.env.variant): paper, the default, or released."
    ),
    recipe: str | None = option(
        None, "Check against this recipe's configuration, e.g. ALDEN's hybrid."
    ),
) -> None:
    """Check that the parts of a prompt file fit a system, as a run with docagent.prompt=FILE does.

    Example: docagent-rl prompts check mine.yaml --system vrag_rl
    """
    if file.suffix not in (".yaml", ".yml"):
        raise UserError(f"{file}: a prompt file ends with .yaml")
    env: dict[str, Any] = {}
    if recipe is not None:
        section = plain_section(composed_recipe(recipe).docagent)
        if "env" not in section or section["system"] != system:
            raise UserError(
                f"--recipe {recipe} is not a reinforcement learning recipe of the system {system}"
            )
        env = section["env"]
    found = get_system(system)
    template = found.load_prompt(
        found.parse_config({**env, "variant": variant or env.get("variant")}), file
    )
    table = Table("part", "variables that it shows")
    for part in template.parts:
        table.add_row(shown(part), ", ".join(sorted(template.used[part])))
    Console().print(table)
    unused = sorted(found.prompt_spec.variables - frozenset().union(*template.used.values()))
    left = f"; not used: {', '.join(unused)}" if unused else ""
    typer.echo(f"{file} fits {found.name}{left}")
