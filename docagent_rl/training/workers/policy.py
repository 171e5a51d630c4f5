"""verl's worker for the policy, the rollout and the reference, with this package's additions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import ray
import torch
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.base.errors import UserError
from docagent_rl.config import DocAgentConfig
from docagent_rl.losses.config import Aggregation, KlScope, KlType, ObservationKl
from docagent_rl.losses.model_parts import copied_head
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.settings.models import freezes_actor
from docagent_rl.training.tensors import read_rows
from docagent_rl.training.workers.extensions import FrozenVisionWorker, PolicyKinds
from docagent_rl.training.workers.observation_kl import (
    EngineExactTerm,
    ObservationKlLoss,
    ReferenceStates,
    observation_totals,
    sample_reference,
)
from docagent_rl.training.workers.trained_tokens import TrainedTokensWorker
from docagent_rl.training.workers.trajectory_loss import TrajectoryCountWorker, TrajectoryMeanLoss
from docagent_rl.training.workers.turn_loss import TurnCountWorker, TurnMeanLoss

_MEANS: dict[Aggregation, tuple[type, type[TrainingWorker]]] = {
    Aggregation.TRAJECTORY: (TrajectoryMeanLoss, TrajectoryCountWorker),
    Aggregation.TURN: (TurnMeanLoss, TurnCountWorker),
}
"""For each mean, a loss that takes it of verl's, and the worker that counts its divisor."""
POLICY_ROLES = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)


def install_workers(role_worker_mapping: dict[Role, Any], kinds: PolicyKinds) -> None:
    """Replace the policy's worker in verl's role mapping if there are additions."""
    for role in POLICY_ROLES if kinds.actor else ():
        if role in role_worker_mapping:
            base = role_worker_mapping[role].__ray_actor_class__
            role_worker_mapping[role] = ray.remote(kinds.worker_class(base))


def policy_kinds(run: DictConfig, section: DocAgentConfig) -> PolicyKinds:
    """Return the additions to verl's policy worker for a run, which are independent of each other.

    The preflight has checked that they are compatible with the run.
    """
    found = PolicyKinds()
    if section.kl.enabled:
        found.outer.append(ObservationKlMixin)
        found.actor.append(PolicyWorker)
        found.reference.append(ReferenceWorker)
        found.settings["observation_kl"] = section.kl.observation
    if freezes_actor(run):
        found.actor.append(FrozenVisionWorker)
    if section.loss.aggregation in _MEANS:
        found.outer.append(MeanLossMixin)
        found.settings["mean_loss"], count_worker = _MEANS[section.loss.aggregation]
        found.actor.append(count_worker)
    found.actor.append(TrainedTokensWorker)
    return found


class PolicyWorker(TrainingWorker):
    """A worker that trains the policy, and counts observation tokens per mini-batch for means."""

    rule: ObservationRule | None = None
    exact: EngineExactTerm | None = None

    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        """Train as verl does, with the reference's head on the device."""
        if self.exact is None:
            return super().train_mini_batch(data)
        with self.exact.update(torch.device(get_device_id())):
            return super().train_mini_batch(data)

    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does."""
        if self.rule is not None:
            fields = observation_totals(read_rows(data), self.rule)
            counts = torch.tensor(list(fields.values()), device=get_device_id())
            torch.distributed.all_reduce(counts, group=self.engine.get_data_parallel_group())
            tu.assign_non_tensor(data, **dict(zip(fields, counts.tolist(), strict=True)))
        return super().train_batch(data)


class ReferenceWorker(TrainingWorker):
    """A worker that runs the reference, and keeps its hidden states for the update."""

    states: ReferenceStates | None = None

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """Infer as verl does, and drop earlier states."""
        if self.states is not None:
            self.states.clear()
        return super().infer_batch(data)


if TYPE_CHECKING:
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

    _Worker = ActorRolloutRefWorker
else:
    _Worker = object


class MeanLossMixin(_Worker):
    """An addition to `ActorRolloutRefWorker` whose policy has another mean of verl's loss.

    Its policy's worker has to count the divisor of that mean.
    """

    mean_loss: ClassVar[type]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # ty: ignore[missing-attribute]  (verl adds the members)
    def init_model(self) -> None:
        """Build the models as verl does, then wrap the policy's loss."""
        super().init_model()
        if self.actor is not None:
            self.loss_fn = self.mean_loss(self.loss_fn)
            self.actor.set_loss_fn(self.loss_fn)


class ObservationKlMixin(_Worker):
    """An addition to `ActorRolloutRefWorker` whose policy and reference are the workers above."""

    observation_kl: ClassVar[ObservationKl]

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # ty: ignore[missing-attribute]  (verl adds the members)
    def init_model(self) -> None:
        """Build the models as verl does, then wrap the policy's loss.

        Raises:
            UserError: the term needs image placeholders or a reference model, but there are none.
        """
        super().init_model()
        actor = cast("PolicyWorker | None", self.actor)
        if actor is None:
            return
        config = self.observation_kl
        options = self.config.actor
        rule = ObservationRule(config.scope, config.at, self._image_token_id(actor))
        actor.rule = rule
        actor.exact = self._exact_term(actor, rule) if config.type is KlType.EXACT else None
        loss = ObservationKlLoss(
            self.loss_fn,
            config,
            rule,
            aggregation=options.loss_agg_mode,
            scale_factor=options.loss_scale_factor,
            by_turn=isinstance(self.loss_fn, TurnMeanLoss),
            exact=actor.exact,
        )
        actor.set_loss_fn(loss)

    def _image_token_id(self, actor: PolicyWorker) -> int | None:
        found = getattr(actor.model_config.hf_config, "image_token_id", None)
        if found is None and self.observation_kl.scope is KlScope.IMAGE:
            raise UserError(
                "docagent.kl.observation.scope is image, but the model has no image placeholder: "
                "set it to all"
            )
        return found

    def _exact_term(self, actor: PolicyWorker, rule: ObservationRule) -> EngineExactTerm:
        ref = cast("ReferenceWorker | None", self.ref)
        if ref is None:
            raise UserError(
                "docagent.kl.observation.type is exact, but the policy's worker has no reference "
                "model: set actor_rollout_ref.actor.use_kl_loss=true, or another type"
            )
        states = ReferenceStates()
        engine = cast("FSDPEngine", ref.engine)
        sample_reference(engine, rule, states)
        ref.states = states
        head = copied_head(engine.module, engine._autocast_dtype, torch.device(get_device_id()))
        policy = cast("FSDPEngine", actor.engine).module
        vocabulary = len(actor.model_config.tokenizer)
        return EngineExactTerm(self.observation_kl, policy, states, head, vocabulary)
