"""The recipes of the package, and the ablations that belong to them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile
from pathlib import Path

import yaml

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import did_you_mean

ROOT = files("docagent_rl") / "recipes"
"""The package's own recipes."""
BASE = "base"
"""The recipe without a system that users' recipes build on; it does not belong to a paper."""
ABLATIONS = "ablations"
"""The folder of the ablations, with one folder per system, and their Hydra group:
`+ablations=<system>/<name>`.
"""
NOTES = (
    "Departs from the paper:",
    "The paper is silent, as the released code has it:",
    "The paper is silent, chosen here:",
    "With docagent.env.variant=released also set:",
    "Rewarded without a document:",
)
"""Titles of the notes at the end of a recipe's comment, in the order of
`checks.provenance.ProvenanceSource`.
"""
_SIDE_REMARK = re.compile(
    r" \([^)]*\)"
    r"|(;|: the paper's recipe| without division)(?! PPO).*"
    r"|\. .*"
)
"""The words that a list leaves out of the sentence that opens a recipe's comment."""
_SFT_BASE = "sft_trainer_engine"
# cached, because every composition asks for the recipe's kind
_parsed = cache(partial(yaml.load, Loader=yaml.CSafeLoader))


class TrainerKind(Enum):
    """The trainer that a recipe is for; the value is the trainer's module."""

    RL = "verl.trainer.main_ppo"
    SFT = "verl.trainer.sft_trainer"


def located(recipe: str, root: Traversable = ROOT) -> tuple[str, Traversable]:
    """Return the name and folder of a recipe that is given by name or as the path of its file."""
    if not recipe.endswith(".yaml"):
        return recipe, root
    path = Path(recipe)
    if not path.is_file():
        raise UserError(
            f"{path}: there is no such file; `docagent-rl recipes` lists the shipped recipes"
        )
    return path.stem, path.parent


def recipe_names(root: Traversable = ROOT, kind: TrainerKind | None = TrainerKind.RL) -> list[str]:
    """Return the sorted names that `--config-name` accepts, of one kind or of any (`None`)."""
    names = [name for name in _yaml_names(root) if name != BASE]
    return [name for name in names if kind is None or recipe_kind(name, root) is kind]


def require_recipes(
    names: Iterable[str], root: Traversable = ROOT, kind: TrainerKind | None = None
) -> None:
    """Check that recipes with these names exist, of one kind or of any (`None`).

    Raises:
        UserError: a recipe does not exist; the message suggests the most similar name.
    """
    known = recipe_names(root, kind)
    for name in names:
        if name not in known and not name.endswith(".yaml"):
            own = (
                " (`base` has no system: add yours in a recipe file that builds on it)"
                if name == "base"
                else ""
            )
            hint = did_you_mean(name, known) or f": there are {', '.join(known)}."
            raise UserError(
                f"there is no recipe {name!r}{own}{hint} `docagent-rl recipes` lists them"
            )


def recipe_kind(name: str, root: Traversable = ROOT) -> TrainerKind:
    """Return which trainer a recipe is for, from its `defaults` and those of the recipes below it.

    A file that cannot be read counts as a recipe for reinforcement learning; its check reports what
    is wrong.
    """
    name, root = located(name, root)
    seen = set()
    names = [name]
    while names:
        current = names.pop()
        if current == _SFT_BASE:
            return TrainerKind.SFT
        if current not in seen:
            seen.add(current)
            own = root / f"{current}.yaml"
            names += _defaults(own if own.is_file() else ROOT / f"{current}.yaml")
    return TrainerKind.RL


def _defaults(file: Traversable) -> list[str]:
    read = _read(file)
    listed = read.get("defaults") if isinstance(read, Mapping) else None
    return [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


def _read(file: Traversable) -> object:
    try:
        return _parsed(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def recipe_summary(name: str, root: Traversable = ROOT) -> str:
    """Return a recipe's opening comment without the launch command in its first line and the
    notes.
    """
    lines = _comment(root / f"{name}.yaml")[1:]
    return "\n".join(takewhile(lambda line: line not in NOTES, lines)).strip()


@dataclass(frozen=True, slots=True)
class RecipeLine:
    """A recipe in one line of a list.

    Args:
        title: its system, model and estimator, in a few words.
        hardware: the GPUs that it is written for, or nothing if its comment names none.
    """

    title: str
    hardware: str


def recipe_line(name: str, root: Traversable = ROOT) -> RecipeLine:
    """Return what a list says of a recipe; it comes from the recipe's opening comment."""
    summary = recipe_summary(name, root)
    opening, *fields = re.split(r"\n(?=[A-Z][\w ]+:\s)", summary.partition("\n\n")[0])
    hardware = next((each for each in fields if each.startswith("Hardware:")), "")
    return RecipeLine(
        title=_SIDE_REMARK.sub("", " ".join(opening.split())).strip(" .;"),
        hardware=re.sub(r"^.*?(\d+ [^;(]*?)\s*([;(].*)?$", r"\1", hardware, flags=re.DOTALL),
    )


def ablation_names(recipe: str | None = None, root: Traversable = ROOT) -> list[str]:
    """Return the sorted names that `+ablations=` accepts, for one recipe or for all.

    They are `<system>/<name>`, or `<name>` for a file outside the systems' folders.
    """
    folder = root / ABLATIONS
    if not folder.is_dir():
        return []
    names = _yaml_names(folder)
    for system in folder.iterdir():
        names += (
            [f"{system.name}/{name}" for name in _yaml_names(system)] if system.is_dir() else []
        )
    return sorted(
        name for name in names if recipe is None or recipe in ablation_recipes(name, root)
    )


def ablation_summary(name: str, root: Traversable = ROOT) -> str:
    """Return an ablation's description, which is the second line of its comment."""
    return "".join(_comment(root / ABLATIONS / f"{name}.yaml")[1:2])


def ablation_recipes(name: str, root: Traversable = ROOT) -> list[str]:
    """Return the recipes that an ablation belongs to, as its line `# for:` lists them."""
    if not (recipes := _field(name, "for", root)):
        raise UserError(
            f"recipes/{ABLATIONS}/{name}.yaml: the line `# for: <recipe>, ...` is missing"
        )
    return [recipe.strip() for recipe in recipes.split(",")]


def ablation_row(name: str, root: Traversable = ROOT) -> str:
    """Return the paper's row and number from an ablation's line `# paper:`, or an empty text."""
    return _field(name, "paper", root)


def _field(name: str, field: str, root: Traversable) -> str:
    prefix = f"{field}: "
    lines = _comment(root / ABLATIONS / f"{name}.yaml")
    return next((line.removeprefix(prefix) for line in lines if line.startswith(prefix)), "")


def _yaml_names(folder: Traversable) -> list[str]:
    return sorted(
        p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")
    )


def _comment(path: Traversable) -> list[str]:
    lines = takewhile(
        lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines()
    )
    return [line.removeprefix("#").strip() for line in lines]
