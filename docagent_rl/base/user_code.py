"""Import code of the user that a configuration names, and report where it fails."""

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from docagent_rl.base.errors import UserError

MODULES_VARIABLE = "DOCAGENT_MODULES"
"""Environment variable with the user's modules, separated by commas; `docagent.modules` sets it."""
PACKAGE = "pkg://"
FILE = "file://"
"""Prefixes of the path of code, which verl's loader accepts too."""
_imported: set[str] = set()


def waiting_modules() -> list[str]:
    """Return the modules in `MODULES_VARIABLE` that have not been imported yet."""
    names = os.environ.get(MODULES_VARIABLE, "").split(",")
    return [name for name in names if name and name not in _imported]


def import_named_modules() -> bool:
    """Import each module in `MODULES_VARIABLE` once; return whether any was imported now.

    Raises:
        UserError: a module does not exist, or raises an exception; so does the next call.
    """
    new = waiting_modules()
    _imported.update(new)  # before the imports: a module may look up what it registers
    for number, name in enumerate(new):
        try:
            import_module(name, f"docagent.modules: {name}")
        except UserError:
            _imported.difference_update(new[number:])
            raise
    return bool(new)


def load_modules(names: Sequence[str]) -> None:
    """Import the user's modules (`docagent.modules`).

    Raises:
        UserError: a module does not exist, or raises an exception.
    """
    for name in names:
        import_module(name, f"docagent.modules: {name}")


def import_module(name: str, named: str) -> ModuleType:
    """Import a module of the user; `named` is the configuration key and value that name it.

    Raises:
        UserError: the module cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except UserError as error:
        raise UserError(f"{named}: {error}") from error
    except Exception as error:  # the user's module may raise anything
        hint = "install its package, or add its folder to PYTHONPATH"
        raise UserError(f"{named} cannot be imported: {described(error)}; {hint}") from error


def load_source(path: str, named: str) -> ModuleType:
    """Import the user's `pkg://package.module`, or a Python file under a module name of its own.

    Args:
        path: the module or the file.
        named: the configuration key and value that name it.

    Raises:
        UserError: there is no such file or module, or importing it raises.
    """
    if path.startswith(PACKAGE):
        return import_module(path.removeprefix(PACKAGE).replace("/", "."), named)
    file = Path(path.removeprefix(FILE)).expanduser().absolute()
    if not file.is_file():
        raise UserError(
            f"{named}: there is no file {file}; give a Python file, or {PACKAGE}package.module"
        )
    name = f"docagent_file_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{named}: Python cannot import {file.name}: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their own module there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's file may raise anything
        del sys.modules[name]
        raise UserError(
            f"{named} cannot be loaded: {described(error)}; install what it imports, or add it to "
            "PYTHONPATH"
        ) from error
    return module


def load_attribute(path: str, named: str) -> Any:
    """Return the object that the user's `package.module:NAME` refers to; see `import_module`."""
    module, _, name = path.partition(":")
    found = import_module(module, named)
    try:
        return getattr(found, name)
    except AttributeError as error:
        raise UserError(f"{named} cannot be imported: {error}") from error


def described(error: BaseException) -> str:
    """Return an exception's type and message, with the last line of user code in its traceback."""
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
