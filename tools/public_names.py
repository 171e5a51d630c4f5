"""Write the public names of the package with their parameters into `tests/public_names.txt`.

Run `python -m tools.public_names` after a change; a test fails if that was forgotten. A line that
changes there is a change for everybody who extends the package.
"""

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = (
    "advantages",
    "envs",
    "lab.agents",
    "lab.importers",
    "retrieval",
    "rewards",
    "runs",
    "samples",
)
FILE = Path(__file__).parents[1] / "tests" / "public_names.txt"


def main() -> None:
    """Write the file."""
    FILE.write_text(public_names(), encoding="utf-8")


def public_names() -> str:
    """Return one line for each name, and for each method, field or member of a class."""
    return "".join(
        f"{line}\n" for package in PACKAGES for line in _of_package(f"docagent_rl.{package}")
    )


def _of_package(package: str) -> Iterator[str]:
    module = import_module(package)
    for name in sorted(module.__all__):
        value = getattr(module, name)
        yield f"{package}.{name}{_parameters(value)}"
        if inspect.isclass(value):
            yield from (f"{package}.{name}.{line}" for line in _of_class(value))


def _of_class(kind: type) -> Iterator[str]:
    """Yield the public members of one of our classes, including inherited ones."""
    if issubclass(kind, Enum):
        yield from (f"{each.name} = {each.value!r}" for each in kind)
        return
    known = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    for name in sorted(name for name in dir(kind) if not name.startswith("_")):
        place = next(each for each in kind.__mro__ if name in vars(each))
        if place.__module__.startswith("docagent_rl") and name not in known:
            yield f"{name}{_parameters(getattr(kind, name))}"


def _parameters(value: Any) -> str:
    """Return the parameters of a function or class without types.

    Defaults are shown only if they are numbers, texts, booleans or None.
    """
    # the parameters of an enumeration are Python's, and differ between its versions
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Enum)):
        return ""
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    plain = (str, int, float, bool, type(None))
    shown = []
    for each in signature.parameters.values():
        default = each.default
        if default is not each.empty and not isinstance(default, plain):
            default = _Other()
        shown.append(each.replace(annotation=each.empty, default=default))
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


class _Other:
    """A default that has no short form."""

    def __repr__(self) -> str:
        return "..."


if __name__ == "__main__":
    main()
