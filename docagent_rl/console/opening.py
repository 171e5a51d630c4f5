"""Opens the console in the first process of a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl import __version__
from docagent_rl.base.first_line import printed_at, trains
from docagent_rl.config import ConsoleKind
from docagent_rl.console.run_console import RunConsole, capture_output, open_console

_OURS = "docagent_rl"


class _Warnings(logging.Handler):
    """A handler that shows our warnings, in addition to the log."""

    def __init__(self, console: RunConsole) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.warn(record.getMessage())


def begin_console(
    config: DictConfig,
    facts: Callable[[DictConfig], Iterable[tuple[str, str]]],
    expectation: str | None = None,
    *,
    first: bool = True,
) -> None:
    """Open the console of the run that this process drives, and print facts about the run.

    It does nothing with `docagent.console=full`, and in programs other than verl's trainers.

    Args:
        config: the composed configuration; the run's folder must be writable.
        facts: yields facts about the run, each with a label.
        expectation: a line on what to expect of the run.
        first: true for the first of a run's processes; the others only show their errors.
    """
    kind = OmegaConf.select(config, "docagent.console", default=ConsoleKind.SHORT.value)
    if kind != ConsoleKind.SHORT.value or not trains():
        return
    run_dir = Path(str(config.docagent.run_dir)).expanduser().absolute()
    if not first:
        capture_output(run_dir)
        return
    recipe = OmegaConf.select(config, "hydra.job.config_name") or "a recipe"
    console = open_console(run_dir, str(recipe))
    if printed_at() is None:
        console.line(f"docagent-rl {__version__}: {recipe}")
    logging.getLogger(_OURS).addHandler(_Warnings(console))
    for name, text in facts(config):
        console.fact(name, text)
    console.fact("writes", str(config.docagent.run_dir))
    console.fact("log", f"{console.log} (docagent.console=full prints it instead)")
    if expectation is not None:
        console.line(expectation)
    console.begin("checks")
