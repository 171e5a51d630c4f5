"""verl's worker of policy, rollout and reference, with the observation KL in its loss."""

from __future__ import annotations

from typing import Any, ClassVar

import ray
import torch
from tensordict import TensorDict
from verl.single_controller.base.decorator import Dispatch, register
from verl.trainer.ppo.utils import Role
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.errors import UserError
from docagent_rl.losses.batch import read_rows
from docagent_rl.losses.config import KlConfig, KlScope, KlType, ObservationKl
from docagent_rl.losses.exact_term import EngineExactTerm
from docagent_rl.losses.heads import copied_head
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.losses.reference import ReferenceStates, record_reference
from docagent_rl.losses.visual_kl import ObservationKlLoss, Totals

POLICY_ROLES = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef)


def install_workers(role_worker_mapping: dict[Role, Any], config: KlConfig) -> None:
    """Replace the policy's worker by one with the observation KL; leave everything untouched where it is off.

    Call it once verl has filled the mapping. The section travels to the workers with their class. Whether it
    fits the run is for `docagent_rl.losses.checks.check_kl` to say.

    Args:
        role_worker_mapping: verl's, from roles to Ray actor classes; changed in place.
        config: the section `docagent.kl`.
    """
    if not config.enabled:
        return
    for role in POLICY_ROLES:
        if role in role_worker_mapping:
            base = role_worker_mapping[role].__ray_actor_class__
            role_worker_mapping[role] = ray.remote(worker_class(base, config.observation))


def worker_class(base: type[ActorRolloutRefWorker], config: ObservationKl) -> type[ActorRolloutRefWorker]:
    """A subclass of `base` whose policy has the observation term in its loss."""
    return type(f"ObservationKl{base.__name__}", (ObservationKlMixin, base), {"observation_kl": config})


class PolicyWorker(TrainingWorker):
    """Trains the policy, and counts the observation tokens of each mini-batch for the means over it."""

    rule: ObservationRule | None = None
    exact: EngineExactTerm | None = None

    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        """As verl's."""
        if self.exact is None:
            return super().train_mini_batch(data)
        with self.exact.update(torch.device(get_device_id())):
            return super().train_mini_batch(data)

    def train_batch(self, data: TensorDict) -> TensorDict:
        """As verl's, for one mini-batch."""
        if self.rule is not None:
            tu.assign_non_tensor(data, **self._totals(data).fields())
        return super().train_batch(data)

    def _totals(self, data: TensorDict) -> Totals:
        fields = Totals.count(read_rows(data), self.rule).fields()
        counts = torch.tensor(list(fields.values()), device=get_device_id())
        torch.distributed.all_reduce(counts, group=self.engine.get_data_parallel_group())
        return Totals(**dict(zip(fields, counts.tolist(), strict=True)))


class ReferenceWorker(TrainingWorker):
    """Runs the reference, and leaves its hidden states where the update finds them."""

    states: ReferenceStates | None = None

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """As verl's."""
        if self.states is not None:
            self.states.clear()
        return super().infer_batch(data)


class ObservationKlMixin:
    """Mixed in before `ActorRolloutRefWorker`, or a subclass of it, by `worker_class`."""

    observation_kl: ClassVar[ObservationKl]
    actor_worker_cls = PolicyWorker
    ref_worker_cls = ReferenceWorker

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        """Build the models as verl does, then wrap the policy's loss.

        Raises:
            UserError: the term needs image placeholders or a reference model, and there are none.
        """
        super().init_model()
        if self.actor is None:
            return
        config, actor = self.observation_kl, self.config.actor
        rule = ObservationRule(config.scope, config.at, self._image_token_id())
        self.actor.rule = rule
        self.actor.exact = self._exact_term(rule) if config.type is KlType.EXACT else None
        loss = ObservationKlLoss(
            self.loss_fn,
            config,
            rule,
            aggregation=actor.loss_agg_mode,
            scale_factor=actor.loss_scale_factor,
            exact=self.actor.exact,
        )
        self.actor.set_loss_fn(loss)

    def _image_token_id(self) -> int | None:
        found = getattr(self.actor.model_config.hf_config, "image_token_id", None)
        if found is None and self.observation_kl.scope is KlScope.IMAGE:
            raise UserError(
                "docagent.kl.observation.scope is image, but the model has no image placeholder: use all"
            )
        return found

    def _exact_term(self, rule: ObservationRule) -> EngineExactTerm:
        if self.ref is None:
            raise UserError(
                "docagent.kl.observation.type is exact, but no reference model lives in the policy's worker"
            )
        states, engine = ReferenceStates(), self.ref.engine
        record_reference(engine, rule, states)
        self.ref.states = states
        head = copied_head(engine.module, engine._autocast_dtype, torch.device(get_device_id()))
        vocabulary = len(self.actor.model_config.tokenizer)
        return EngineExactTerm(self.observation_kl, self.actor.engine.module, states, head, vocabulary)
