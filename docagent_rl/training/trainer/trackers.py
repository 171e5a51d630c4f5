"""Continue the W&B and MLflow runs of a run that resumes from a checkpoint.

verl starts a new tracker run at every start unless the environment names one. A run that starts
from the beginning also starts new tracker runs, as the old ones contain steps of another policy.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docagent_rl.base.io import atomic_write

logger = logging.getLogger(__name__)

FILE = "trackers.json"
WANDB = "wandb"
MLFLOW = "mlflow"
_VARIABLES = {WANDB: "WANDB_RUN_ID", MLFLOW: "MLFLOW_RUN_ID"}


def note_trackers(run_dir: Path, tracking: Any) -> None:
    """Record the tracker runs that verl's `Tracking` has started or continued."""
    open_ones: Mapping[str, Any] = getattr(tracking, "logger", {})
    runs = {}
    if WANDB in open_ones:
        runs[WANDB] = open_ones[WANDB].run.id
    if MLFLOW in open_ones:
        mlflow: Any = sys.modules["mlflow"]  # which verl has imported
        runs[MLFLOW] = mlflow.active_run().info.run_id
    if runs:
        atomic_write(run_dir / FILE, json.dumps(runs))


def continue_trackers(run_dir: Path) -> None:
    """Set the tracker runs of earlier starts in the environment, unless it already names some."""
    for tracker, run in _noted(run_dir).items():
        variable = _VARIABLES.get(tracker)
        if variable is None or variable in os.environ:
            continue
        os.environ[variable] = str(run)
        if tracker == WANDB:
            os.environ.setdefault("WANDB_RESUME", "allow")
        logger.warning("continuing the %s run %s", tracker, run)


def _noted(run_dir: Path) -> Mapping[str, Any]:
    try:
        runs = json.loads((run_dir / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return runs if isinstance(runs, dict) else {}
