"""The workspace of a stored run that is read where it is not: copied elsewhere, or moved as a
whole.
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
    """Have a stored configuration name a workspace that is there, where that of the run is not, or
    its store.

    That is what `DOCAGENT_WORKSPACE` names, else the folder in whose `runs` the run lies, if it has
    a store.
    """
    try:
        named = [OmegaConf.select(config, key) for key in (KEY, "docagent.store")]
    except OmegaConfBaseException:
        return  # whoever reads the key says so
    if named[0] is None or all(each is not None and Path(str(each)).is_dir() for each in named):
        return
    around = run.absolute().parent.parent
    found = os.environ.get(VARIABLE) or (str(around) if (around / "store").is_dir() else None)
    if found is not None:
        logger.warning("%s: its workspace %s is not here, %s is read instead", run, named[0], found)
        move_workspace(config, found)


def move_workspace(config: DictConfig, workspace: str) -> None:
    """Name another workspace, in all paths below it too; the configuration is changed in place."""
    old = str(OmegaConf.select(config, KEY)).rstrip("/")
    new = workspace.rstrip("/")
    plain: Any = OmegaConf.to_container(config)
    for parent, key, text in list(string_leaves(config, plain)):
        if text == old or text.startswith(f"{old}/"):
            with read_write(parent):
                parent[key] = new + text.removeprefix(old)
    with read_write(config):
        OmegaConf.update(config, KEY, new)
