"""The page of the promised names, made from their docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from tools.public_names import PACKAGES
from tools.reference.markdown import paragraphs

OPENING = """# API

*For whoever writes code against this package: every name that is promised, with its docstring. Made by `python -m tools.reference`.*

Import these names from the package of their heading. All other modules may change with any release ([versions.md](versions.md)). [Extending it](extending.md) shows them in use."""
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
    """Return the parameters of a function or class, with types by their last names."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return "(...)"
    plain = (str, int, float, bool, type(None), Enum)
    shown = [
        each.replace(default=each.default if isinstance(each.default, plain) else _Other())
        if each.default is not each.empty
        else each
        for each in found.parameters.values()
    ]
    text = str(found.replace(parameters=shown)).replace("'", "")
    return _MODULE.sub("", text)


class _Other:
    """A default that has no short form."""

    def __repr__(self) -> str:
        return "..."
