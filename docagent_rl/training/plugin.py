"""Entry point of the group `verl.plugins`: `import verl` loads this module in every process.

Each thing is registered when the verl module that looks it up has been imported, so that a process
only loads what it uses. verl logs a failing plugin at DEBUG and continues without it; here a
failure ends the process instead, whether it happens now or in a later registration.
"""

import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from docagent_rl.training.registrations import AGENT_LOOP, AGENT_LOOP_CLASS

logger = logging.getLogger(__name__)


def register_plugin() -> None:
    """Register platform, patches, agent loop, checkpoint engine, estimators and trainer modes."""
    # imported here, so that an import error in this package also ends the process
    from docagent_rl.patches import ALL_PATCHES
    from docagent_rl.training import cpu_platform  # noqa: F401  registers on import
    from docagent_rl.training.patching import install, on_import

    install(ALL_PATCHES)
    on_import("verl.experimental.agent_loop.agent_loop", _register_agent_loop)
    on_import("verl.workers.rollout.replica", _register_replica)
    on_import("verl.checkpoint_engine.base", _register_checkpoint_engine)
    on_import("verl.trainer.ppo.core_algos", _register_estimators)
    on_import("verl.trainer.ppo.v1", _register_trainer_modes)


def _register_agent_loop(module: ModuleType) -> None:
    # by name, which is all that verl's decorator keeps: the loop's module cannot be imported here,
    # as it may be the one that is importing verl
    loops = Registry(module._agent_loop_registry)
    loops[AGENT_LOOP] = {"_target_": AGENT_LOOP_CLASS}
    setattr(module, "_agent_loop_registry", loops)  # noqa: B010  a module has no such attribute


def _register_replica(module: ModuleType) -> None:
    def load() -> type:
        from docagent_rl.training.serving.server import PageReplica

        return PageReplica

    module.RolloutReplicaRegistry.register("vllm", load)


def _register_checkpoint_engine(module: ModuleType) -> None:
    from docagent_rl.training.serving import weights_by_ray  # noqa: F401  registers on import


class Registry(dict[str, Any]):
    """A verl registry that imports the user's modules on the first lookup.

    They cannot be imported earlier, as they may import verl's trainer, which imports the registry.
    """

    def __contains__(self, name: object) -> bool:
        _import_users_modules()
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Any:
        _import_users_modules()
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        _import_users_modules()
        return super().__iter__()

    def get(self, name: object, default: Any = None, /) -> Any:
        """Return the value for a name, like `dict.get`."""
        _import_users_modules()
        return super().get(name, default)


def _import_users_modules() -> None:
    from docagent_rl.base.user_code import import_named_modules, waiting_modules
    from docagent_rl.training.patching import is_being_executed

    if not waiting_modules():  # a fast path: losses are looked up for every micro-batch
        return
    loaded = list(sys.modules.items())
    if any(name.startswith("verl.") and is_being_executed(module) for name, module in loaded):
        return
    if import_named_modules():
        from docagent_rl.training.trainer.estimators import install_estimators

        install_estimators()


def _register_estimators(module: ModuleType) -> None:
    for name in ("ADV_ESTIMATOR_REGISTRY", "POLICY_LOSS_REGISTRY"):
        setattr(module, name, Registry(getattr(module, name)))
    from docagent_rl.training.trainer import estimators  # noqa: F401  installs them on import


def _register_trainer_modes(module: ModuleType) -> None:
    module.trainer_base.TRAINER_REGISTRY = Registry(module.trainer_base.TRAINER_REGISTRY)
    from docagent_rl.training.trainer import modes  # noqa: F401  registers on import


try:
    register_plugin()
except Exception as error:  # verl swallows every Exception of a plugin, but not SystemExit
    logger.exception("docagent-rl could not be registered with verl")
    raise SystemExit(
        f"docagent-rl could not be registered with verl: {type(error).__name__}: {error}"
    ) from error
