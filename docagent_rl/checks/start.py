"""What the starts of a run leave behind and hand on."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from uuid import uuid4

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.user_code import MODULES_VARIABLE
from docagent_rl.checks.cluster import attachment
from docagent_rl.training.nodes.check import ATTACHED_VARIABLE
from docagent_rl.watch.leftovers import RUN_VARIABLE, earlier_starts, end_leftovers, note_start

logger = logging.getLogger(__name__)

TITLES_VARIABLE = "SPT_NOENV"
"""Without it, vLLM's engines write their title over their environment, as Ray's processes do in any case."""


def end_earlier(config: DictConfig) -> None:
    """End what earlier starts of the run, whose drivers were killed, have left on this machine.

    Raises:
        UserError: the driver of one of them still runs.
    """
    if ended := end_leftovers(earlier_starts(Path(str(config.docagent.run_dir)))):
        logger.warning("ended what an earlier start of this run had left: %s", ", ".join(ended))


def pass_on_environment(config: DictConfig) -> None:
    """Tell every process of the run, on all nodes, the run's id (see `docagent_rl.watch.leftovers`), which
    modules of the user to import (see `docagent_rl.training.plugin`), and whether Ray ran before.
    """
    variables = {RUN_VARIABLE: uuid4().hex[:12], TITLES_VARIABLE: "1"}
    note_start(Path(str(config.docagent.run_dir)), variables[RUN_VARIABLE])
    os.environ |= variables  # for the Ray that the run starts
    if modules := ",".join(config.docagent.get("modules") or ()):
        variables[MODULES_VARIABLE] = modules
    if attachment(config) is not None:
        variables[ATTACHED_VARIABLE] = "1"
    with open_dict(config):
        for name, value in variables.items():
            OmegaConf.update(config, f"ray_kwargs.ray_init.runtime_env.env_vars.{name}", value)
