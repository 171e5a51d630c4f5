"""Model families, one module each: a `FAMILY` of its own name (`docagent.model_family`)."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from docagent_rl.base.errors import UserError
from docagent_rl.models.family import KEY, Family

_OTHER = frozenset({"family"})


@cache
def families() -> tuple[Family, ...]:
    """Return all families by name."""
    names = sorted(each.name for each in pkgutil.iter_modules(__path__) if each.name not in _OTHER)
    return tuple(import_module(f"{__name__}.{name}").FAMILY for name in names)


def get_family(name: str) -> Family:
    """Return a family by name.

    Raises:
        UserError: there is none of that name; names those that there are.
    """
    for family in families():
        if family.name == name:
            return family
    raise UserError(f"{KEY}={name}: known are {', '.join(each.name for each in families())}")
