"""verl's critic worker, trained only on tokens with a target, and with an optionally frozen
tower.
"""

from collections.abc import Sequence
from typing import Any

import ray
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from verl.single_controller.base.decorator import make_nd_compute_dataproto_dispatch_fn, register
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.config import DocAgentConfig
from docagent_rl.training.settings.models import STRATEGIES, freezes_critic
from docagent_rl.training.workers.extensions import FrozenVisionWorker, composed_class
from docagent_rl.training.workers.trained_tokens import TrainedTokensWorker

VALUE_MASK = "value_mask"
"""Field of a batch, with the shape of `response_mask`: 1 on sampled tokens with a critic target."""


def install_critic(
    role_worker_mapping: dict[Role, Any], kinds: Sequence[type[TrainingWorker]]
) -> None:
    """Replace the critic's worker in verl's role mapping if there are a critic and additions."""
    if Role.Critic in role_worker_mapping and kinds:
        base = role_worker_mapping[Role.Critic].__ray_actor_class__
        role_worker_mapping[Role.Critic] = ray.remote(composed_class(kinds, base))


def critic_kinds(
    run: DictConfig, section: DocAgentConfig, *, ours: bool
) -> list[type[TrainingWorker]]:
    """Return the additions to verl's critic worker for a run.

    `ours` says whether the estimator is one of this package, which marks the tokens with a target.
    """
    kinds: list[type[TrainingWorker]] = [CriticWorker if ours else TrainedTokensWorker]
    if freezes_critic(run, section):
        kinds.append(FrozenVisionWorker)
    return kinds


def pass_micro_batch_sizes(critic: DictConfig) -> None:
    """Set the micro-batch sizes of the critic's FSDP engine in the section `critic`.

    verl's V1 trainers only do this for the policy. Without it, the critic's engine packs rows up to
    `ppo_infer_max_token_len_per_gpu` tokens (32,768), whatever `ppo_micro_batch_size_per_gpu`,
    `use_dynamic_bsz` and `ppo_max_token_len_per_gpu` are.
    """
    if critic.strategy not in STRATEGIES:
        return
    size = critic.ppo_micro_batch_size_per_gpu
    with open_dict(critic):
        if "ppo_infer_max_token_len_per_gpu" not in critic:
            critic.ppo_infer_max_token_len_per_gpu = critic.ppo_max_token_len_per_gpu
        if size is not None and not critic.use_dynamic_bsz:
            critic.fsdp.use_dynamic_bsz = False
            critic.fsdp.micro_batch_size_per_gpu = size
            critic.fsdp.infer_micro_batch_size_per_gpu = (
                critic.forward_micro_batch_size_per_gpu or size
            )


class CriticWorker(TrainedTokensWorker):
    """A critic that excludes tokens without a target from its loss and from the loss's divisor."""

    @register(
        dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False
    )
    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does."""
        if VALUE_MASK in data.keys():  # noqa: SIM118  (a TensorDict iterates over its rows)
            data["response_mask"] = data[VALUE_MASK]
        return super().train_batch(data)
