"""The recipes of the package, and the ablations that belong to them."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from docagent_rl.errors import UserError

ROOT = files("docagent_rl") / "recipes"
"""The package's own recipes."""
ABLATIONS = "ablations"
"""Folder of the ablations, and their Hydra group: `+ablations=<name>`."""


def recipe_names(root: Traversable = ROOT) -> list[str]:
    """Names that `--config-name` takes, sorted."""
    return _yaml_names(root)


def recipe_summary(name: str, root: Traversable = ROOT) -> str:
    """The comment that opens a recipe, without its first line (the launch command)."""
    return "\n".join(_comment(root / f"{name}.yaml")[1:]).strip()


def ablation_names(recipe: str | None = None, root: Traversable = ROOT) -> list[str]:
    """Names that `+ablations=` takes, sorted.

    Args:
        recipe: leave out those that do not belong to it.
        root: folder of recipes.
    """
    folder = root / ABLATIONS
    names = _yaml_names(folder) if folder.is_dir() else []
    return [name for name in names if recipe is None or recipe in ablation_recipes(name, root)]


def ablation_summary(name: str, root: Traversable = ROOT) -> str:
    """What an ablation is, in one line."""
    return _comment(root / ABLATIONS / f"{name}.yaml")[1]


def ablation_recipes(name: str, root: Traversable = ROOT) -> list[str]:
    """The recipes that an ablation belongs to, as its line `# for:` lists them.

    Raises:
        UserError: the file has no such line.
    """
    return [recipe.strip() for recipe in _field(name, "for", root).split(",")]


def ablation_row(name: str, root: Traversable = ROOT) -> str:
    """The paper's row and number, as the line `# paper:` of an ablation gives them.

    Raises:
        UserError: the file has no such line.
    """
    return _field(name, "paper", root)


def _field(name: str, field: str, root: Traversable) -> str:
    for line in _comment(root / ABLATIONS / f"{name}.yaml"):
        if line.startswith(f"{field}: "):
            return line.removeprefix(f"{field}: ")
    raise UserError(f"recipes/{ABLATIONS}/{name}.yaml: the line `# {field}: ...` is missing")


def _yaml_names(folder: Traversable) -> list[str]:
    return sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml"))


def _comment(path: Traversable) -> list[str]:
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return lines
