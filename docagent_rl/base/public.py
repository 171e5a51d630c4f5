"""Lazy imports of a package's public names.

The package's `__init__.pyi`, which type checkers read, says which module defines each name:
`from MODULE import NAME as NAME`. At run time a module is imported when one of its names is first
used, so that importing the package itself costs next to nothing.
"""

import ast
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def exporter(package: str, file: str, registering: Sequence[str] = ()) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; it also answers for `__all__`.

    Args:
        package: name of the package.
        file: its `__init__.py`.
        registering: its modules that register something when they are imported; they are imported
            before the first name is loaded.
    """

    @cache
    def places() -> dict[str, str]:
        return promised(Path(file).with_suffix(".pyi"))

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(places())
        if name.startswith("__") or name not in places():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for module in registering:
            import_module(f"{package}.{module}")
        return getattr(import_module(places()[name]), name)

    return load


def promised(stub: Path) -> dict[str, str]:
    """Return the public names that a stub declares, with their modules."""
    found: dict[str, str] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= dict.fromkeys((name.name for name in node.names), node.module)
    return found
