"""Code of users that a configuration names: importing it, and saying where it fails."""

import importlib
import os
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from docagent_rl.base.errors import UserError

MODULES_VARIABLE = "DOCAGENT_MODULES"
"""Environment variable with modules of users, separated by commas (`docagent.modules` sets it in a
run).
"""
_imported: set[str] = set()


def waiting_modules() -> list[str]:
    """Return the modules that `MODULES_VARIABLE` names and nobody has imported yet."""
    names = os.environ.get(MODULES_VARIABLE, "").split(",")
    return [name for name in names if name and name not in _imported]


def import_named_modules() -> bool:
    """Import the modules that `MODULES_VARIABLE` names, once; return whether there was one."""
    new = waiting_modules()
    _imported.update(new)  # before: a module may look up what it registers
    for name in new:
        import_module(name, f"docagent.modules: {name}")
    return bool(new)


def import_module(name: str, named: str) -> ModuleType:
    """Import a module of the user, or raise a `UserError`; `named` is the key and the value that
    name it.
    """
    try:
        return importlib.import_module(name)
    except UserError as error:
        raise UserError(f"{named}: {error}") from error
    except Exception as error:  # whatever a module raises when it is imported
        hint = "its package has to be installed, or its folder on PYTHONPATH"
        raise UserError(f"{named} cannot be imported: {described(error)}; {hint}") from error


def load_attribute(path: str, named: str) -> Any:
    """Return what `package.module:NAME` of the user's own means; see `import_module`."""
    module, _, name = path.partition(":")
    found = import_module(module, named)
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise UserError(f"{named} cannot be imported: {error}") from error


def described(error: BaseException) -> str:
    """Return type and message of an exception, and the user's last line on the way to it."""
    libraries = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    libraries.append(Path(__file__).parents[1])
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")
    ]
    own = [
        f for f in frames if not any(Path(f.filename).is_relative_to(path) for path in libraries)
    ]
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {error}{place}"
