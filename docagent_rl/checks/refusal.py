"""Ends a run that must not start: one message on the standard error stream, exit status 2."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.terminal import visible
from docagent_rl.base.text import clean, traceback_text

TRACEBACK_FILE = "preflight_traceback.txt"


def refuse(error: Exception, config: DictConfig) -> NoReturn:
    """End the process for what a check has raised, whatever it is.

    Hydra makes warnings of exceptions in callbacks and goes on, so that anything but `SystemExit` would start
    the run unchecked.

    Args:
        error: a `UserError`, a configuration that cannot be resolved and a service that fails are told by
            their message; of anything else, which is a bug, the traceback goes into a file that the message
            names.
        config: of the run, whose folder takes that file.

    Raises:
        SystemExit: always, with status 2.
    """
    if isinstance(error, UserError | InfrastructureError):
        message = clean(str(error))
    elif isinstance(error, OmegaConfBaseException):
        message = clean(f"configuration: {error}")
    else:
        message = _bug(error, config)
    print(visible(f"docagent-rl: {message}"), file=sys.stderr, flush=True)
    raise SystemExit(2) from error


def _bug(error: Exception, config: DictConfig) -> str:
    text, first = traceback_text(error), (clean(str(error)) or "no message").splitlines()[0]
    try:
        where = f"traceback: {_beside_run(text, config)}"
    except (OSError, OmegaConfBaseException, TypeError, ValueError):
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix="docagent_rl_", suffix=f"_{TRACEBACK_FILE}", encoding="utf-8", delete=False
            ) as file:
                file.write(text)
            where = f"traceback: {file.name}"
        except OSError:
            where = text
    return (
        f"the checks before the run failed unexpectedly, so the run does not start: {type(error).__name__}: "
        f"{first}\n  {where}"
    )


def _beside_run(text: str, config: DictConfig) -> Path:
    folder = OmegaConf.select(config, "docagent.run_dir", throw_on_missing=True)
    path = Path(folder) / TRACEBACK_FILE  # TypeError where there is none
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
