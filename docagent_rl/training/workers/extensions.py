"""Compose additions to verl's workers, and one such addition, which freezes a vision tower.

verl 0.9.1 declares `actor_rollout_ref.actor.freeze_vision_tower`, but never reads it.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from verl.utils.device import get_device_name
from verl.workers.config import TrainingWorkerConfig
from verl.workers.config.optimizer import build_optimizer
from verl.workers.engine import EngineRegistry
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.base.errors import UserError
from docagent_rl.training.settings.models import (
    ACTOR_KEY,
    CRITIC_KEY,
    SFT_KEY,
    STRATEGIES,
    unsupported,
    vision_modules,
)

LANGUAGE_MODEL = "language_model"
VENDOR = "docagent_frozen_vision"
"""The vendor name under which the engine of a supervised run is registered."""


@dataclass(slots=True)
class PolicyKinds:
    """Additions to verl's policy worker.

    `outer` are mixins in front of `ActorRolloutRefWorker`, whose `init_model` they may extend;
    `actor` and `reference` are subclasses of `TrainingWorker` that call `super()`; `settings` are
    class attributes, which are serialised together with the class.
    """

    outer: list[type] = field(default_factory=list)
    actor: list[type[TrainingWorker]] = field(default_factory=list)
    reference: list[type[TrainingWorker]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def worker_class(self, base: type[ActorRolloutRefWorker]) -> type[ActorRolloutRefWorker]:
        """Return a subclass of `base` with all additions; the first ones are called first."""
        attributes = {
            "actor_worker_cls": composed_class(self.actor, base.actor_worker_cls),
            "ref_worker_cls": composed_class(self.reference, base.ref_worker_cls),
        }
        return type(_name([*self.outer, base]), (*self.outer, base), self.settings | attributes)


def composed_class(kinds: Sequence[type], base: type) -> type:
    """Return a class that inherits from all kinds and `base`, in this order; a single one as it
    is.
    """
    present = [*kinds, *([] if any(issubclass(kind, base) for kind in kinds) else [base])]
    return present[0] if len(present) == 1 else type(_name(present), tuple(present), {})


def _name(kinds: Sequence[type]) -> str:
    *first, last = (kind.__name__ for kind in kinds)
    return "".join([*(name.removesuffix("Mixin").removesuffix("Worker") for name in first), last])


class FrozenVisionWorker(TrainingWorker):
    """A worker that trains everything except the vision tower."""

    def __init__(self, config: TrainingWorkerConfig) -> None:
        super().__init__(config=config)
        freeze_vision(self.engine)


def freeze_vision(engine: Any) -> None:
    """Make an `FSDPEngine` that is not initialised yet freeze its model's vision tower.

    The tower is excluded from the optimizer. The encoder and the projector are frozen, including
    adapters in them: Doc-V* computes page tokens once, which is only valid if neither changes;
    VRAG-RL and UniDoc-RL freeze both in their supervised stages. EasyR1 freezes the same module of
    Qwen2.5-VL. Weights are still sent to the rollout server.

    Raises:
        UserError: it is not an FSDP engine; or later, when it builds the model, the model has no
            vision tower.
    """
    strategy = engine.engine_config.strategy
    if strategy not in STRATEGIES:
        raise UserError(unsupported(strategy))
    build_fsdp_module = engine._build_fsdp_module

    def frozen_module(module: nn.Module) -> nn.Module:
        freeze(module, required=not engine._is_lora)
        if strategy == "fsdp" and not engine._is_lora:
            # only in this way can FSDP1 flatten trained and frozen tensors together; with LoRA, it
            # wraps trained adapters separately
            object.__setattr__(engine.engine_config, "use_orig_params", True)
        return build_fsdp_module(module)

    def optimizer(module: nn.Module) -> torch.optim.Optimizer:
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        made = build_optimizer(trained, engine.optimizer_config)
        made.register_load_state_dict_pre_hook(_same_size)
        return made

    engine._build_fsdp_module = frozen_module
    engine._build_optimizer = optimizer


def freeze(model: nn.Module, *, required: bool = True) -> list[str]:
    """Freeze a model's vision tower before the model is sharded; return the names of its modules.

    Raises:
        UserError: the model has no tower, and one is `required`. It is not required with LoRA, as
            `+lora=language` works for all models.
    """
    found = dict(vision_modules(model))
    if required and not found:
        raise UserError(
            f"{ACTOR_KEY} (for the critic {CRITIC_KEY}, in supervised fine-tuning {SFT_KEY}) is "
            f"true, but {type(model).__name__} has no vision tower: set it to false"
        )
    for module in found.values():
        module.requires_grad_(False)
        # needed because, with LoRA, transformers also requires gradients of the encoder's input
        module.forward = torch.no_grad()(module.forward)
    return list(found)


def _same_size(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Raise `UserError` for a checkpoint of a run that trained different tensors."""
    states = optimizer.state_dict(), state
    ours, theirs = (sum(len(group["params"]) for group in each["param_groups"]) for each in states)
    if ours != theirs:
        raise UserError(
            f"the optimizer of the checkpoint has {theirs} tensors, but this run trains {ours}: "
            f"the checkpoint was saved with another value of {ACTOR_KEY} (for the critic "
            f"{CRITIC_KEY}). Resume with that value, or start a new run with another "
            "trainer.experiment_name"
        )


def register_frozen_engine(strategy: str) -> None:
    """Make verl's supervised trainer in this process build an engine with a frozen vision tower.

    The trainer's worker class is hard-coded, but not its engine: `VERL_ENGINE_VENDOR` selects one
    of those registered for a device.

    Raises:
        UserError: the strategy is neither `fsdp` nor `fsdp2`.
    """
    if strategy not in STRATEGIES:
        raise UserError(unsupported(strategy))
    base = EngineRegistry.get_engine_cls(LANGUAGE_MODEL, strategy)

    class FrozenVisionEngine(base):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            freeze_vision(self)

    EngineRegistry.register(LANGUAGE_MODEL, strategy, get_device_name(), VENDOR)(FrozenVisionEngine)
    os.environ["VERL_ENGINE_VENDOR"] = VENDOR
