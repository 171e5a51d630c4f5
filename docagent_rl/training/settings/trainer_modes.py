"""The requirements of verl's trainer modes, checked before Ray and the models start."""

import importlib
import math
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.config import copied
from docagent_rl.training.settings.arithmetic import refusal
from docagent_rl.training.settings.divisibility import BATCH, SERVER
from docagent_rl.training.settings.keys import reference
from docagent_rl.training.settings.ledger import MODE, MODES, OURS

ROLLOUT = "actor_rollout_ref.rollout"
BACKEND = f"{ROLLOUT}.checkpoint_engine.backend"
MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"
UPDATES = "trainer.v1.separate_async.parameter_sync_step"
BUILT_FROM = (
    "algorithm.filter_groups",
    "algorithm.use_kl_in_reward",
    "distillation.enabled",
    "trainer.v1.sampler",
)
"""The keys from which verl's trainers are built, besides the section of their mode;
`separate_async` needs more.
"""
USERS_CODE = ("trainer.checkpoint_callback_class", "trainer.v1.sampler.custom_sampler.path")
"""Keys of the user's own classes that verl's trainer would instantiate; only the run does that."""


def verls_mode(config: DictConfig) -> str:
    """Return the name of verl's trainer mode that a run extends."""
    return str(OmegaConf.select(config, MODE)).removeprefix(OURS)


def separate_problems(config: DictConfig) -> Iterator[str]:
    """Name everything at which verl's `separate_async` would stop, with values to set.

    Source: verl 0.9.1, `PPOTrainerSeparateAsync.__init__`,
    `LLMServerManager._initialize_llm_servers`.
    """
    if verls_mode(config) != "separate_async":
        return
    batch = int(OmegaConf.select(config, BATCH))
    mini = int(OmegaConf.select(config, MINI))
    updates = int(OmegaConf.select(config, UPDATES))
    if batch != updates * mini:
        fits = f"{MINI}={batch // updates}" if batch % updates == 0 else f"{BATCH}={updates * mini}"
        yield (
            f"{BATCH}={batch} must be {UPDATES}={updates} times {MINI}={mini}, which is "
            f"{updates * mini}: set {fits}"
        )
    yield from _server_problems(config)
    if OmegaConf.select(config, BACKEND) == "naive":
        yield (
            f"{BACKEND}=naive cannot send weights to separate servers: set nccl, which needs the "
            "package cupy, or docagent_ray, which goes through host memory"
        )


def _server_problems(config: DictConfig) -> Iterator[str]:
    nodes = int(OmegaConf.select(config, f"{ROLLOUT}.nnodes"))
    per_node = int(OmegaConf.select(config, f"{ROLLOUT}.n_gpus_per_node"))
    server = math.prod(int(OmegaConf.select(config, key) or 1) for key in SERVER)
    if nodes < 1 or per_node < 1:
        yield (
            f"{ROLLOUT}.nnodes={nodes} and n_gpus_per_node={per_node}: rollout servers need GPUs "
            f"in addition to the trainer's: set {ROLLOUT}.nnodes=1 "
            f"{ROLLOUT}.n_gpus_per_node={server}, or more"
        )
    elif nodes * per_node % server:
        yield (
            f"{ROLLOUT}.nnodes={nodes} and n_gpus_per_node={per_node}: {nodes * per_node} GPUs "
            f"cannot be divided into servers of {server}: set {ROLLOUT}.n_gpus_per_node={server}"
        )


def backend_problems(config: DictConfig) -> Iterator[str]:
    """Name a backend for sending weights to separate servers that this machine does not have."""
    backend = OmegaConf.select(config, BACKEND)
    if verls_mode(config) != "separate_async" or backend == "naive":
        return
    from verl.checkpoint_engine import CheckpointEngineRegistry

    if module := OmegaConf.select(config, f"{ROLLOUT}.checkpoint_engine.custom_backend_module"):
        importlib.import_module(module)
    try:
        CheckpointEngineRegistry.get(backend)
    except ValueError as error:
        yield f"{BACKEND}={backend} is not available: {error}"


def trainer_problems(config: DictConfig) -> Iterator[str]:
    """Run the checks that verl's trainer of the configured mode would run after Ray has started.

    They run when the trainer is constructed, which starts nothing. The user's own trainers are not
    checked.
    """
    mode = verls_mode(config)
    if mode not in MODES or _built_from_defaults(config, mode):
        return
    from verl.trainer.ppo.v1.trainer_base import get_trainer_cls

    changed = copied(config)
    with open_dict(changed):
        changed.trainer.v1.trainer_mode = mode
        for key in USERS_CODE:
            OmegaConf.update(changed, key, None)
    if said := refusal(lambda: get_trainer_cls(mode)(changed)):
        yield f"verl's trainer refuses this configuration: {said}"


def _built_from_defaults(config: DictConfig, mode: str) -> bool:
    """Return whether a trainer is built from verl's own values, which verl need not be asked about.

    Importing verl's trainers takes ten seconds.
    """
    keys = (*BUILT_FROM, f"trainer.v1.{mode}")
    return mode != "separate_async" and all(_is_default(config, key) for key in keys)


def _is_default(config: DictConfig, key: str) -> bool:
    default: Any = reference()
    for name in key.split("."):
        default = default.get(name)
    value = OmegaConf.select(config, key)
    return default == (OmegaConf.to_container(value) if OmegaConf.is_config(value) else value)
