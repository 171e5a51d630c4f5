"""A page on what the papers and the released code of the systems do differently."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel

from docagent_rl.base.section import VariantSection
from docagent_rl.checks.provenance import Source, read_provenance
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.systems import SYSTEMS, get_system

VARIANTS = ("paper", "released")
_INTRODUCTION = """\
# Variants

What `docagent.env.variant` changes: `paper` is the system as published, `released` is the published code as
it was meant to work. A key that a recipe sets keeps its value under both; `null` takes the variant's.
"(ours)" marks a value of `paper` of which the paper says nothing, or something else; these, and those that no
variant changes, are named by `docagent-rl recipes show`.
Written by `docagent-rl recipes variants`.
"""
_PADDING_TITLE = """\
## More turns, more reward

Rounds that repeat, find nothing, lead astray or are malformed do not raise the reward of a trajectory, in any
system (`tests/players/test_padding.py`), but for these:

"""


def variant_table() -> str:
    """The page, as Markdown: a table for every system that has both variants."""
    parts, single = [_INTRODUCTION], []
    for name in sorted(SYSTEMS):
        differing = list(differences(name))
        if not differing:
            single.append(f"`{name}`")
            continue
        rows = [f"| {' | '.join(map(_cell, row))} |\n" for row in differing]
        parts.append(
            f"## {name}\n\n| key | paper | released | what it is |\n|---|---|---|---|\n" + "".join(rows)
        )
    parts.append(f"No code was released for {' and '.join(single)}, which have the variant `paper` alone.\n")
    return "\n".join([*parts, _padding()])


def _padding() -> str:
    """The section on turns that lead to nothing."""
    items = [
        f"- **{name}, `{variant}`.** {text}\n"
        for name in sorted(SYSTEMS)
        for variant, text in get_system(name).padding.items()
    ]
    return _PADDING_TITLE + "".join(items)


def differences(name: str) -> Iterator[tuple[str, str, str, str]]:
    """What the variants of a system do differently.

    Args:
        name: the system.

    Yields:
        The key below `docagent.env`, its value in the paper and in the released code, and what it is. Nothing
        for a system without both variants.
    """
    system = get_system(name)
    config_type = system.config_type
    if not issubclass(config_type, VariantSection) or set(VARIANTS) - set(config_type.variants):
        return
    defaults = config_type.variants
    prompts = [system.default_prompt(config_type.for_variant(variant)) for variant in VARIANTS]
    if len(set(prompts)) > 1:
        yield "(prompt)", f"`{prompts[0]}`", f"`{prompts[1]}`", "The package's prompt."
    paper, released = (dict(_flat(defaults[variant])) for variant in VARIANTS)
    recipe = next(recipe for recipe in recipe_names() if recipe.startswith(name))
    named = read_provenance(recipe).keys(Source.DEPARTS, Source.RELEASE, Source.SILENT)
    ours = tuple(f"{key}." for key in named)
    for key in dict.fromkeys([*paper, *released]):
        if paper.get(key) != released.get(key):
            yield (
                f"`{key}`",
                "(ours) " * f"docagent.env.{key}.".startswith(ours) + _value(paper, key),
                _value(released, key),
                _explained(config_type, key.split(".")),
            )


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _value(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if isinstance(value, Enum):
        doc = _docstrings(type(value)).get(value.name, "")
        return f"`{value.value}`: {doc}" if doc else f"`{value.value}`"
    return "" if key not in values else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _explained(config_type: type[BaseModel], path: list[str]) -> str:
    """What the source says below a field, or of the enumeration that its values are from."""
    field = config_type.model_fields[path[0]]
    kind = field.annotation
    if len(path) > 1 and isinstance(kind, type) and issubclass(kind, BaseModel):
        return _explained(kind, path[1:])
    own = _docstrings(config_type).get(path[0], "")
    if not own and isinstance(kind, type) and issubclass(kind, Enum):
        return " ".join((kind.__doc__ or "").split())
    return own


def _docstrings(kind: type) -> dict[str, str]:
    """The strings below the attributes of a class and its bases, by attribute, on one line each."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("docagent_rl."):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = definition.body if isinstance(definition, ast.ClassDef) else []
        for statement, after in itertools.pairwise(body):
            name = _assigned(statement)
            if name and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[name] = " ".join(str(after.value.value).split())
    return found


def _assigned(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
