"""Relocating a stored run's workspace when the run was copied to another place, or moved together
with its workspace.
"""

import logging
import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.checks.environment import string_leaves

VARIABLE = "DOCAGENT_WORKSPACE"
KEY = "docagent.workspace"

logger = logging.getLogger(__name__)


def relocate(config: DictConfig, run: Path) -> None:
    """Point a stored configuration to an existing workspace if the run's own, or its store, is
    missing.

    The replacement is what `DOCAGENT_WORKSPACE` names, otherwise the folder whose `runs` contains
    the run, if that folder has a store.
    """
    try:
        named = [OmegaConf.select(config, key) for key in (KEY, "docagent.store")]
    except OmegaConfBaseException:
        return  # the code that reads the key reports the error
    if named[0] is None or all(each is not None and Path(str(each)).is_dir() for each in named):
        return
    around = run.absolute().parent.parent
    found = os.environ.get(VARIABLE) or (str(around) if (around / "store").is_dir() else None)
    if found is not None:
        logger.warning(
            "%s: its workspace %s does not exist; reading %s instead", run, named[0], found
        )
        move_workspace(config, found)


def move_workspace(config: DictConfig, workspace: str) -> None:
    """Change the workspace, and every path below it, in place."""
    old = str(OmegaConf.select(config, KEY)).rstrip("/")
    new = workspace.rstrip("/")
    plain: Any = OmegaConf.to_container(config)
    for parent, key, text in list(string_leaves(config, plain)):
        if text == old or text.startswith(f"{old}/"):
            with read_write(parent):
                parent[key] = new + text.removeprefix(old)
    with read_write(config):
        OmegaConf.update(config, KEY, new)
