"""Whether the weights of a model fit through the shared memory by which the CPU platform hands them on."""

from __future__ import annotations

import math
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.surroundings import BUCKET
from docagent_rl.training.platforms.detect import is_cpu_platform

_MODEL = "actor_rollout_ref.model"
_DTYPE = "actor_rollout_ref.actor.fsdp_config.model_dtype"
_HALF = frozenset({"bf16", "bfloat16", "fp16", "float16"})


def check_bucket(config: DictConfig) -> None:
    """See that the largest weight fits into the bucket; on GPUs larger ones go by another way.

    Weights are handed on in the trainer's own type, float32 unless `model_dtype` says otherwise. Models named
    by a hub's name are left to verl, which notices after it has loaded everything.

    Raises:
        UserError: it does not fit; the message says what to set.
    """
    model = OmegaConf.select(config, _MODEL)
    folder = Path(str(model.path)).expanduser()
    if not is_cpu_platform() or model.get("lora_rank") or not folder.is_dir():
        return
    found = largest_weight(folder)
    if found is None:
        return
    name, count = found
    size = count * (2 if str(OmegaConf.select(config, _DTYPE)) in _HALF else 4)
    bucket, needed = int(OmegaConf.select(config, BUCKET)), math.ceil(size / 2**20)
    if needed > bucket:
        raise UserError(
            f"{BUCKET}={bucket} MB is less than the largest weight of {folder} ({name}: {needed} MB), which "
            f"goes through it whole: set it to {needed} or more"
        )


def largest_weight(folder: Path) -> tuple[str, int] | None:
    """The name of a model's largest weight and how many numbers it holds; None without safetensors.

    Only headers are read.
    """
    from safetensors import safe_open

    sizes: dict[str, int] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as weights:
            sizes |= {name: math.prod(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    return max(sizes.items(), key=lambda item: item[1], default=None)
