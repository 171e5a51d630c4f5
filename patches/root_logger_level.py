"""vLLM's server does not silence the loggers of others.

Upstream: model-hosting-container-standards 0.1.16, `logging_config.py`, which vLLM's OpenAI server
imports (`vllm/entrypoints/serve/sagemaker/api_router.py`). Its import sets the root logger, and
every handler that it has, to ERROR, unless `SAGEMAKER_CONTAINER_LOG_LEVEL` or `LOG_LEVEL` says
otherwise: from then on no warning of any library in that process is heard.

Here the variable has the level that the root logger has anyway while the module is imported, unless
the user has set one of the two; the package's own lines stay at ERROR.

Unneeded once the import leaves the root logger alone.
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
    reason="rollout servers say nothing below an error, whoever speaks",
    target_module="vllm",
    apply=_apply,
    processes=TRAINING,
)
