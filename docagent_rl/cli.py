"""The command `docagent-rl`: everything around training."""

import errno
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import requires
from typing import NoReturn

import typer
from rich.console import Console

from docagent_rl import __version__
from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import FULL, disk_is_full
from docagent_rl.base.text import shown
from docagent_rl.commands.lazy import COMMANDS, LazyGroup

_OF_THE_MACHINE = FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENFILE}
"""Operating system errors that are due to the state of the machine, not to the program."""

app = typer.Typer(
    help="Document agents trained by reinforcement learning inside an unmodified verl.",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)  # a placeholder that `LazyGroup` never calls


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Document agents trained by reinforcement learning inside an unmodified verl."""


def main(command: Callable[[], object] = app) -> None:
    """Run a command line; for bad input or a failing service, print one line and exit with 2.

    Args:
        command: reads its arguments from `sys.argv`; by default the command `docagent-rl`.
    """
    # keep standard output for the result of the command
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    # verl warns about every training engine that is not installed
    warnings.filterwarnings("ignore", module=r"verl\.workers\.engine")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # escape the characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    with reported():
        command()


@contextmanager
def reported() -> Generator[None]:
    """Turn an expected error into one line on standard error and exit status 2.

    Expected are bad input, a failing service, a full disk or missing permissions, and a missing
    package of the extra `lab`.
    """
    try:
        yield
    except (UserError, InfrastructureError) as error:
        _refuse(str(error))
    except OSError as error:
        if not (error.errno in _OF_THE_MACHINE or disk_is_full(error)):
            raise
        _refuse(f"{error.filename or 'a file'}: {error.strerror or f'No space left ({error})'}")
    except ModuleNotFoundError as error:
        if not _of_the_lab(error.name or ""):
            raise
        _refuse(
            f"this command needs {error.name}, which is not installed: pip install "
            "'docagent-rl[lab]'"
        )


def _of_the_lab(module: str) -> bool:
    """Return whether a package belongs to the extra `lab`."""
    extra = [each for each in requires("docagent-rl") or () if each.endswith("extra == 'lab'")]
    return module.partition(".")[0] in {re.split(r"[^\w-]", each)[0] for each in extra}


def _refuse(message: str) -> NoReturn:
    # the terminal breaks the line, so that a command in it can be copied
    Console(stderr=True).print(shown(f"docagent-rl: {message}", "red"), soft_wrap=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
