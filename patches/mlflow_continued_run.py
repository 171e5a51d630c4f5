"""A resumed run continues its MLflow run.

Upstream: verl 0.9.1, `verl/utils/tracking.py`, `Tracking`. It attaches to the run in
`MLFLOW_RUN_ID` and logs the configuration as parameters, which MLflow does not allow to change: if
any key differs from the first start, such as `trainer.resume_from_path`, verl tries three times and
continues without MLflow.

Here parameters that the MLflow run already has are not logged again.

No longer needed once verl does not log parameters to a run that it attaches to.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from docagent_rl.training.patching import Patch, ProcessKind, replace


def _apply(module: ModuleType) -> None:
    original = module._compute_mlflow_params_from_objects

    def _compute_mlflow_params_from_objects(params: Any) -> dict[str, Any]:
        """Return the parameters that the active run lacks."""
        computed = original(params)
        if not os.environ.get("MLFLOW_RUN_ID"):
            return computed
        mlflow: Any = sys.modules["mlflow"]  # which verl has imported
        known = mlflow.get_run(mlflow.active_run().info.run_id).data.params
        return {name: value for name, value in computed.items() if name not in known}

    replace(module, "_compute_mlflow_params_from_objects", _compute_mlflow_params_from_objects)


PATCH = Patch(
    name="mlflow_continued_run",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/tracking.py, Tracking",
    reason="a resumed run would not be logged to MLflow, as its parameters cannot be logged twice",
    target_module="verl.utils.tracking",
    apply=_apply,
    processes=frozenset({ProcessKind.RAY}),
)
