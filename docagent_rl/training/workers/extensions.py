"""Additions to verl's workers, put together piece by piece; one of them freezes the vision tower of
a model.

verl 0.9.1 declares `actor_rollout_ref.actor.freeze_vision_tower` and reads it nowhere.
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
"""Under which the engine of a supervised run is registered."""


@dataclass(slots=True)
class PolicyKinds:
    """Additions to verl's worker of the policy.

    `outer` are mixed in before `ActorRolloutRefWorker`, whose `init_model` they may extend; `actor`
    and `reference` are subclasses of `TrainingWorker` that call `super()`; `settings` are class
    attributes, which travel with the class.
    """

    outer: list[type] = field(default_factory=list)
    actor: list[type[TrainingWorker]] = field(default_factory=list)
    reference: list[type[TrainingWorker]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    def worker_class(self, base: type[ActorRolloutRefWorker]) -> type[ActorRolloutRefWorker]:
        """Return a subclass of `base` with all of them; those named first see a call first."""
        attributes = {
            "actor_worker_cls": composed_class(self.actor, base.actor_worker_cls),
            "ref_worker_cls": composed_class(self.reference, base.ref_worker_cls),
        }
        return type(_name([*self.outer, base]), (*self.outer, base), self.settings | attributes)


def composed_class(kinds: Sequence[type], base: type) -> type:
    """Return one class of all kinds and `base`, in this order; a single one as it is."""
    present = [*kinds, *([] if any(issubclass(kind, base) for kind in kinds) else [base])]
    return present[0] if len(present) == 1 else type(_name(present), tuple(present), {})


def _name(kinds: Sequence[type]) -> str:
    *first, last = (kind.__name__ for kind in kinds)
    return "".join([*(name.removesuffix("Mixin").removesuffix("Worker") for name in first), last])


class FrozenVisionWorker(TrainingWorker):
    """A worker that trains everything but the vision tower."""

    def __init__(self, config: TrainingWorkerConfig) -> None:
        super().__init__(config=config)
        freeze_vision(self.engine)


def freeze_vision(engine: Any) -> None:
    """Make an `FSDPEngine`, not initialised yet, freeze the vision tower of its model.

    The tower is left out of the optimizer. Encoder and projector are frozen, adapters in them
    included: Doc-V* computes page tokens once, which holds only if neither changes; VRAG-RL and
    UniDoc-RL freeze both in their supervised stages. EasyR1 freezes the same module of Qwen2.5-VL.
    Weights are sent to the rollout server as ever.

    Raises:
        UserError: it is another engine; later, when it builds its model: the model has no vision
            tower.
    """
    strategy = engine.engine_config.strategy
    if strategy not in STRATEGIES:
        raise UserError(unsupported(strategy))
    build_fsdp_module = engine._build_fsdp_module

    def frozen_module(module: nn.Module) -> nn.Module:
        freeze(module, required=not engine._is_lora)
        if strategy == "fsdp" and not engine._is_lora:
            # FSDP1 flattens tensors that are trained and tensors that are not into one only this
            # way; trained adapters it wraps one by one
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
    """Freeze the vision tower of a model, before it is sharded, and return the names of its
    modules.

    Raises:
        UserError: the model has none, and it is `required`. With LoRA it is not: `+lora=language`
            is for all.
    """
    found = dict(vision_modules(model))
    if required and not found:
        raise UserError(
            f"{ACTOR_KEY} (for the critic {CRITIC_KEY}, in supervised fine-tuning {SFT_KEY}) is "
            "true, but "
            f"{type(model).__name__} has no vision tower: set it to false"
        )
    for module in found.values():
        module.requires_grad_(False)
        # with LoRA, transformers asks for a gradient of the encoder's first activations too
        module.forward = torch.no_grad()(module.forward)
    return list(found)


def _same_size(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Raise `UserError` for the checkpoint of a run that trained other tensors."""
    states = optimizer.state_dict(), state
    ours, theirs = (sum(len(group["params"]) for group in each["param_groups"]) for each in states)
    if ours != theirs:
        raise UserError(
            f"the optimizer of the checkpoint has {theirs} tensors, this run trains {ours}: it was "
            "written "
            f"under another setting of {ACTOR_KEY} (for the critic {CRITIC_KEY}); resume with that "
            "one, or "
            "start anew under another trainer.experiment_name"
        )


def register_frozen_engine(strategy: str) -> None:
    """Make verl's supervised trainer in this process build an engine whose vision tower is frozen.

    Its worker is fixed in its code, its engine is not: `VERL_ENGINE_VENDOR` chooses among those
    registered for a device.

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
