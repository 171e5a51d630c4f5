"""The page of the promised names, made from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from tools.public_names import PACKAGES
from tools.reference.markdown import paragraphs
from tools.reference.sections import field_texts

OPENING = """# API

*For whoever writes code against this package: every name that is promised, with its docstring. Made by `python -m tools.reference`.*

Import these names from the package of their heading. All other modules may change with any release ([versions.md](versions.md)). [Extending it](extending.md) shows them in use, [the tutorial](tutorial.md) in an hour."""
_SHORT = (str, int, float, bool, type(None))
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")


def api_page() -> str:
    """Return the page."""
    lines = [OPENING, ""]
    for package in PACKAGES:
        module = import_module(f"docagent_rl.{package}")
        lines += [f"## docagent_rl.{package}", "", paragraphs(module.__doc__ or ""), ""]
        for name in sorted(module.__all__):
            lines += _entry(name, getattr(module, name))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    yield from (f"### {name}", "")
    described = inspect.isclass(value) or inspect.isfunction(value)
    if not described:
        # a constant or the name of a type: its docstring would be that of its type
        yield from ("A value, or a name for a type.", "")
        return
    is_enum = inspect.isclass(value) and issubclass(value, Enum)
    if not is_enum:
        yield from ("```python", f"{name}{signature(value)}", "```", "")
    yield from (paragraphs(value.__doc__ or ""), "")
    if is_enum:
        yield from (f"- `{each.name}` = `{each.value!r}`" for each in value)
    elif inspect.isclass(value):
        yield from _members(value)
    yield ""


def _members(kind: type) -> Iterator[str]:
    """Yield a line for each public method and property of a class of ours."""
    known = {each.name for each in fields(kind)} if is_dataclass(kind) else set()
    known.add("model_config")  # pydantic's, whose text is that of a dictionary
    if not issubclass(kind, BaseModel):  # the page of the configuration has those of sections
        for name, text in field_texts(kind).items():
            if not name.startswith("_"):
                yield f"- `{name}`: {text}"
    for name in sorted(name for name in dir(kind) if not name.startswith("_")):
        place = next(each for each in kind.__mro__ if name in vars(each))
        member = inspect.getattr_static(kind, name)
        text = inspect.getdoc(member)
        if name in known or not place.__module__.startswith("docagent_rl") or not text:
            continue
        is_plain = isinstance(member, property) or not callable(getattr(kind, name))
        shown = name if is_plain else f"{name}{signature(getattr(kind, name))}"
        yield f"- `{shown}`: {' '.join(text.partition(chr(10) * 2)[0].split())}"


def signature(value: Any) -> str:
    """Return the parameters of a function or class, with types by their last names.

    Those of a section are without types, which the page of the configuration has.
    """
    try:
        found = inspect.signature(value)
    except ValueError:
        return "(...)"
    section = inspect.isclass(value) and issubclass(value, BaseModel)
    shown = []
    for each in found.parameters.values():
        default = _plain(each.default)
        annotation = each.empty if section else each.annotation
        shown.append(each.replace(default=default, annotation=annotation))
    returned = found.empty if section else found.return_annotation
    text = str(found.replace(parameters=shown, return_annotation=returned))
    return _MODULE.sub("", text.replace("'", ""))


def _plain(default: Any) -> Any:
    """Return a default that has a short form, else one that is written `...`."""
    if isinstance(default, Enum):
        return default.value
    is_short = default is inspect.Parameter.empty or isinstance(default, _SHORT)
    return default if is_short else _Other()


class _Other:
    """A default that has no short form."""

    def __repr__(self) -> str:
        return "..."
