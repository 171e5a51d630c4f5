"""Program: compare advantages of verl's own estimators under verl's trainer modes and under ours,
on the same rows.

Prints one JSON object: by estimator, whether advantages and returns are equal to the bit, and their
spread.
"""

import json

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.training.trainer.estimators import our_estimator
from docagent_rl.training.trainer.modes import (
    DocAgentColocateAsync,
    DocAgentSeparateAsync,
    DocAgentSync,
)
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader

ESTIMATORS = (
    "gae",
    "grpo",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "rloo",
    "opo",
    "grpo_passk",
    "gpg",
    "rloo_vectorized",
    "grpo_vectorized",
)
GROUPS, TRAJECTORIES = 3, 4


def rows(generator: torch.Generator) -> list[dict]:
    """Return rows of several lengths with turns and observations, and rewards on some sampled
    tokens.
    """
    made = []
    for number in range(GROUPS * TRAJECTORIES):
        length = 6 + number
        mask = torch.ones(length, dtype=torch.int64)
        mask[2:4] = 0
        rewards = (
            torch.rand(length, generator=generator) * mask * (torch.arange(length) > length - 4)
        )
        made.append(
            {
                "uid": f"q_{number // TRAJECTORIES}",
                "extra_fields": {},
                "response_mask": mask,
                "rm_scores": rewards,
                "turn_index": torch.where(mask > 0, (torch.arange(length) > 3).long(), -1),
                "values": torch.rand(length, generator=generator),
                "old_log_probs": -torch.rand(length, generator=generator),
                "ref_log_prob": -torch.rand(length, generator=generator),
                "rollout_log_probs": -torch.rand(length, generator=generator),
            }
        )
    return made


def computed(kind: type, config, batch: KVBatchMeta) -> dict[str, torch.Tensor]:
    """Return the columns that a trainer of this kind writes."""
    trainer = object.__new__(kind)
    trainer.config, trainer._estimator, trainer.use_critic = config, our_estimator("grpo"), True
    trainer._reader = TrajectoryReader()
    metrics: dict = {}
    trainer._compute_advantage(batch, metrics)
    fields = ["advantages", "returns"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    return {field: data[field].to_padded_tensor(padding=0.0).clone() for field in fields}


def main() -> None:
    """Compare the trainers."""
    ray.init(address="local", num_cpus=4, include_dashboard=False)
    config = composed_recipe("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])
    config.transfer_queue.enable = True
    tq.init(OmegaConf.create(OmegaConf.to_container(config.transfer_queue, resolve=True)))
    fields = rows(torch.Generator().manual_seed(7))
    keys = [f"q_{n // TRAJECTORIES}_{n % TRAJECTORIES}_0" for n in range(len(fields))]
    tags = [{} for _ in keys]
    tq.kv_batch_put(
        keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id="train"
    )
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    ours = {
        kind.verl_mode: kind
        for kind in (DocAgentSync, DocAgentColocateAsync, DocAgentSeparateAsync)
    }
    report = {}
    for estimator in ESTIMATORS:
        config.algorithm.adv_estimator = estimator
        for mode, kind in ours.items():
            theirs = trainer_base.get_trainer_cls(mode)
            expected, found = computed(theirs, config, batch), computed(kind, config, batch)
            report[f"{estimator}/{mode}"] = {
                "equal": all(torch.equal(expected[field], found[field]) for field in expected),
                "spread": float(expected["advantages"].std()),
            }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
