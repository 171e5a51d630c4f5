"""Model families (`docagent.model_family`): every `Family` that a module of this package
defines.
"""

import pkgutil
from functools import cache
from importlib import import_module

from docagent_rl.base.errors import UserError
from docagent_rl.models.family import KEY, Family


@cache
def families() -> tuple[Family, ...]:
    """Return all families, sorted by name."""
    modules = [import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    found = [
        each for module in modules for each in vars(module).values() if isinstance(each, Family)
    ]
    return tuple(sorted(found, key=lambda family: family.name))


def get_family(name: str) -> Family:
    """Return a family by name.

    Raises:
        UserError: there is no such family; the message lists all families.
    """
    for family in families():
        if family.name == name:
            return family
    known = ", ".join(each.name for each in families())
    raise UserError(f"{KEY}={name}: there is no such family; use one of {known}")


def check_config(family: Family, path: str, model_type: str) -> None:
    """Check that a checkpoint belongs to a family.

    Raises:
        UserError: it does not; the message names the key and the family to set, if there is one.
    """
    if model_type not in family.model_types:
        advice = _advice(model_type)
        raise UserError(f"{KEY}={family.name}: {path} is a model of type {model_type}; {advice}")


def _advice(model_type: str) -> str:
    for family in families():
        if model_type in family.model_types:
            return f"set {KEY}={family.name}, or start from a recipe for that family"
    known = ", ".join(each.name for each in families())
    return f"no family supports it; the families are {known} (docs/models.md)"
