"""A recipe that is made of a configuration of EasyR1, on top of a recipe of the package."""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.lab.easyr1.conversions import FUNCTION
from docagent_rl.lab.easyr1.translation import Easyr1Config, known_keys

_MISSING = object()
_EMPTY = (None, {}, [])
_WITH_CRITIC = ("gae", "bi_level_gae")
_PAGES = "vrag_rl"
_CRITIC = "alden"
_TEXT = "mm_doc_r1"
"""Systems for a model that sees pages, for one with a critic, and for a text model."""


def nearest_recipe(config: Easyr1Config, names: Sequence[str]) -> str:
    """Return the recipe whose model and estimator are nearest to a configuration of EasyR1.

    Models that see images play VRAG-RL, or ALDEN if there is a critic; text models MM-Doc-R1.

    Args:
        config: EasyR1's configuration.
        names: the recipes to choose from, named <system>_<model>.
    """
    path = str(config.values["worker.actor.model.model_path"] or "")
    model = re.sub(r"[^a-z0-9]+", "_", Path(path).name.lower())
    if _is_text(model, names):
        return _nearest(model, _TEXT, [name for name in names if name.endswith("_grpo")])
    critic = config.values["algorithm.adv_estimator"] in _WITH_CRITIC
    return _nearest(model, _CRITIC if critic or config.is_alden else _PAGES, names)


def _is_text(model: str, names: Sequence[str]) -> bool:
    """Return whether the name of a model is a series and a size, such as qwen2_5_7b_instruct.

    Families of the recipes that see pages, and names with `vl`, are none.
    """
    seen = [name.removeprefix(f"{_PAGES}_") for name in names if name.startswith(f"{_PAGES}_")]
    families = tuple(re.sub(r"\d+b(_a\d+b)?$", "", name) for name in seen)
    if "vl" in model or model.startswith(families):
        return False
    return re.match(r"[a-z]+[\d_]*_\d+b", model) is not None


def _nearest(model: str, system: str, names: Sequence[str]) -> str:
    own = sorted(name for name in names if name.startswith(f"{system}_"))
    return max(own, key=lambda name: _common(model, name, system))


def _common(model: str, recipe: str, system: str) -> int:
    """Return how many first characters a model's name and that in a recipe's name share."""
    pairs = zip(model, recipe.removeprefix(f"{system}_"), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def new_values(changes: Mapping[str, Any], base: DictConfig) -> dict[str, Any]:
    """Return the changes that differ from a composed recipe."""
    plain: Any = OmegaConf.to_container(base, resolve=False)
    resolved = OmegaConf.create(plain)
    new = {}
    for key, value in changes.items():
        found = OmegaConf.select(resolved, key, default=_MISSING)
        both_empty = value in _EMPTY and found in _EMPTY
        if found != value and not both_empty:
            new[key] = value
    return new


def absolute_paths(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes with the path of the reward function made absolute.

    EasyR1 reads it from the folder that it is started in.
    """
    key = f"{FUNCTION}.path"
    path = changes.get(key)
    return {**changes, key: str(Path(path).absolute())} if isinstance(path, str) else dict(changes)


def recipe_text(
    name: str, base: str, changes: Mapping[str, Any], config: Easyr1Config, overrides: Sequence[str]
) -> str:
    """Return the file of a recipe.

    Args:
        name: the recipe's name, which is that of its file.
        base: the recipe that it is built on.
        changes: values by our keys.
        config: where they come from.
        overrides: overrides of EasyR1's keys.
    """
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    given = " ".join([config.path.name, *overrides]).replace("\n", " ")
    lines = [
        f"# python -m verl.trainer.main_ppo --config-dir FOLDER --config-name {name}",
        "#",
        f"# {given} of EasyR1 in the keys of this package, on top of {base}.",
        f"# Made by `docagent-rl recipes from-easyr1`, for EasyR1 at {known_keys().commit[:7]}.",
        f"defaults: [{base}, _self_]",
        "",
        yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100),
    ]
    return "\n".join(lines)


def recipe_name(stem: str) -> str:
    """Return a recipe's name if Hydra and a recipe's `defaults` can use it.

    Raises:
        UserError: it has other characters.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", stem):
        raise UserError(f"{stem}.yaml: a recipe's name has ASCII letters, digits, _ . and - only")
    return stem
