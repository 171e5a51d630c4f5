"""vLLM's server does not silence the loggers of other libraries.

Upstream: model-hosting-container-standards 0.1.16, `logging_config.py`, which vLLM's OpenAI server
imports (`vllm/entrypoints/serve/sagemaker/api_router.py`). On import it sets the root logger and
all its handlers to ERROR, unless `SAGEMAKER_CONTAINER_LOG_LEVEL` or `LOG_LEVEL` is set: from then
on warnings of all libraries in that process are lost.

Here the first variable is set to the root logger's default level during the import, unless the user
has set one of the two; the package's own messages stay at ERROR.

No longer needed once the import leaves the root logger alone.
"""

from __future__ import annotations

import os
from types import ModuleType

from docagent_rl.training.patching import TRAINING, Patch, on_import

VARIABLE = "SAGEMAKER_CONTAINER_LOG_LEVEL"
CULPRIT = "model_hosting_container_standards.logging_config"


def _apply(_: ModuleType) -> None:
    if "LOG_LEVEL" in os.environ or VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "WARNING"
    on_import(CULPRIT, lambda _: os.environ.pop(VARIABLE, None))


PATCH = Patch(
    name="root_logger_level",
    package="model-hosting-container-standards",
    versions="==0.1.16",
    reference="model_hosting_container_standards/logging_config.py, configure_root_logger",
    reason="rollout servers would log only errors, from any library",
    target_module="vllm",
    apply=_apply,
    processes=TRAINING,
)
