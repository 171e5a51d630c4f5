"""`docagent-rl recipes from-easyr1`: a configuration of EasyR1 as a recipe."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Column, Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.base.text import shown
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_names, require_recipes
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.easyr1.recipe import (
    absolute_paths,
    nearest_recipe,
    new_values,
    recipe_name,
    recipe_text,
)
from docagent_rl.lab.easyr1.translation import Easyr1Config, Translation, read_config, translate


def from_easyr1_command(
    file: Path = argument(
        ..., "A configuration of EasyR1, such as the `config.yaml` of its examples."
    ),
    overrides: list[str] | None = argument(
        None, "Overrides as in EasyR1's launch command.", metavar="[KEY=VALUE]..."
    ),
    out: Path = option(..., "The recipe to write, .yaml."),
    on: str | None = option(
        None, "Recipe to build on; default: the one with the nearest model and estimator."
    ),
    force: Force = False,
) -> None:
    """Turn a YAML file of EasyR1 into a recipe, and say what became of each of its keys.

    EasyR1's defaults apply to keys that the file does not name. The recipe contains what differs
    from the recipe that it is built on, whose system and lengths stay. Printed are the keys that
    were carried over, those that have another meaning or place here, and those without a
    counterpart, with what to do. Files of ALDEN's copy of EasyR1 are read, too. See
    docs/coming_from.md.

    Example: docagent-rl recipes from-easyr1 config.yaml worker.rollout.n=8 --out mine.yaml
    """
    if out.suffix != ".yaml":
        raise UserError(f"--out {out}: a recipe's file ends with .yaml")
    name = recipe_name(out.stem)
    for override in overrides or ():
        if "=" not in override:
            raise UserError(f"{override} is not an override: write KEY=VALUE")
    config = read_config(file, overrides or ())
    if on is not None:
        require_recipes([on], kind=TrainerKind.RL)
    base_name = on or nearest_recipe(config, recipe_names())
    base = composed_recipe(base_name)
    found = translate(config, base_name, base)
    changes = new_values(absolute_paths(found.changes), base)
    text = recipe_text(name, base_name, changes, config, overrides or ())
    written = write_output(out, text, force=force)
    _report(config, found, changes)
    state = "" if written else ", unchanged"
    reason = _reason(on, config, base)
    typer.echo(
        f"{out}{state}: {len(changes)} keys on top of {base_name}{reason}; next: docagent-rl "
        f"recipes check {out}"
    )


def _reason(on: str | None, config: Easyr1Config, base: DictConfig) -> str:
    """Return why a recipe was built on, as a clause in brackets; nothing if the user named it."""
    if on is not None:
        return ""
    model = config.values["worker.actor.model.model_path"]
    estimator = config.values["algorithm.adv_estimator"]
    return (
        f" (the nearest to {model} and {estimator}; family {base.docagent.model_family}, system "
        f"{base.docagent.system}: --on names another)"
    )


def _report(config: Easyr1Config, found: Translation, changes: dict[str, Any]) -> None:
    """Print what became of the keys."""
    rows = []
    for each in found.carried:
        if each.is_default and not any(key in changes for key in each.changes):
            continue
        default = " (EasyR1's default)" if each.is_default else ""
        ours = "\n".join(f"{key}={_text(value)}" for key, value in each.changes.items())
        rows.append((f"{each.entry.key}={_text(each.value)}{default}", ours))
    _print("Carried over", ("EasyR1", "here"), rows)
    others = [
        (f"{entry.key}={_text(value)}", "\n".join(entry.ours), entry.note)
        for entry, value in found.elsewhere
    ]
    _print("Another meaning or place here", ("EasyR1", "here", "what to do"), others)
    without = [(f"{key}={_text(value)}", why) for key, value, why in found.without]
    without += [(key, hint) for key, hint in config.unknown.items()]
    _print("Without a counterpart", ("EasyR1", "why, and what to do"), without)


def _print(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    columns = [Column(name, overflow="fold") for name in names]
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(shown, row))
    if table.row_count:
        Console().print(table)


def _text(value: Any) -> str:
    """Return a value as YAML has it in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
