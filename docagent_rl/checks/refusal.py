"""Ends a run that must not start: one message on the standard error stream, exit status 2."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.terminal import visible
from docagent_rl.base.tracebacks import clean, traceback_text

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
    print(visible(f"docagent-rl: {_message(error, config)}"), file=sys.stderr, flush=True)
    raise SystemExit(2) from error


def _message(error: Exception, config: DictConfig) -> str:
    if isinstance(error, UserError | InfrastructureError):
        return clean(str(error))
    if isinstance(error, OmegaConfBaseException):
        return clean(f"configuration: {error}")
    text = clean(str(error)) or "no message"
    return (
        f"the checks before the run failed unexpectedly, so the run does not start: {type(error).__name__}: "
        f"{text.splitlines()[0]}\n  {_kept(traceback_text(error), config)}"
    )


def _kept(text: str, config: DictConfig) -> str:
    """Write a traceback where it can be written; where it is, or itself."""
    for write in (_beside_run, _in_temporary):
        try:
            return f"traceback: {write(text, config)}"
        except (OSError, OmegaConfBaseException, TypeError, ValueError):
            continue
    return text


def _beside_run(text: str, config: DictConfig) -> Path:
    folder = OmegaConf.select(config, "docagent.run_dir", throw_on_missing=True)
    path = Path(folder) / TRACEBACK_FILE  # TypeError where there is none
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _in_temporary(text: str, _: DictConfig) -> Path:
    handle, name = tempfile.mkstemp(prefix="docagent_rl_", suffix=f"_{TRACEBACK_FILE}")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(name)
