"""Code of users that a configuration names: importing it, and saying where it fails."""

from __future__ import annotations

import importlib
import os
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from docagent_rl.base.errors import UserError

MODULES_VARIABLE = "DOCAGENT_MODULES"
"""Environment variable with modules of users, separated by commas (`docagent.modules` sets it in a run)."""
_imported: set[str] = set()


def waiting_modules() -> list[str]:
    """Return the modules that `MODULES_VARIABLE` names and nobody has imported yet."""
    names = os.environ.get(MODULES_VARIABLE, "").split(",")
    return [name for name in names if name and name not in _imported]


def import_named_modules() -> bool:
    """Import the modules that `MODULES_VARIABLE` names, once: whoever looks a name up calls it first.

    Returns:
        Whether there was one to import.

    Raises:
        UserError: there is none of a name, or it raises.
    """
    new = waiting_modules()
    _imported.update(new)  # before: a module may look up what it registers
    for name in new:
        import_module(name, f"docagent.modules: {name}")
    return bool(new)


def import_module(name: str, named: str) -> ModuleType:
    """Import a module of the user.

    Args:
        name: of the module.
        named: the key and the value that name it, for the message.

    Raises:
        UserError: there is no such module, or it raises.
    """
    try:
        return importlib.import_module(name)
    except UserError as error:
        raise UserError(f"{named}: {error}") from error
    except Exception as error:  # whatever a module raises when it is imported
        raise UserError(f"{named} cannot be imported: {described(error)}") from error


def described(error: BaseException) -> str:
    """Type and message of an exception, and the user's last line on the way to it."""
    place = _last_line(error)
    return f"{type(error).__name__}: {error}" + (f" ({place})" if place else "")


def _last_line(error: BaseException) -> str | None:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    own = [f for f in frames if not _is_library(Path(f.filename))]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else None


def _is_library(file: Path) -> bool:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    return file.is_relative_to(Path(__file__).parents[1]) or any(file.is_relative_to(path) for path in paths)
