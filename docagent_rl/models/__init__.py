"""Model families: every `Family` of a module here is one (`docagent.model_family`)."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from docagent_rl.base.errors import UserError
from docagent_rl.models.family import KEY, Family


@cache
def families() -> tuple[Family, ...]:
    """Return all families by name."""
    modules = [import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Family)]
    return tuple(sorted(found, key=lambda family: family.name))


def get_family(name: str) -> Family:
    """Return a family by name.

    Raises:
        UserError: there is none of that name; names those that there are.
    """
    for family in families():
        if family.name == name:
            return family
    raise UserError(f"{KEY}={name}: known are {', '.join(each.name for each in families())}")
