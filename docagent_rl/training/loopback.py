"""A run on one machine listens on loopback, where Ray, verl and vLLM allow it."""

from __future__ import annotations

import os

from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.patches.ray_loopback import LOOPBACK, LOOPBACK_VARIABLE

RAY = "ray_kwargs.ray_init"
ADDRESS_KEY = "_node_ip_address"
NODES = (
    "trainer.nnodes",
    "actor_rollout_ref.rollout.nnodes",
    "reward.reward_model.nnodes",
    "distillation.nnodes",
)
"""Every number of nodes that a run can ask for."""
VARIABLES = {
    LOOPBACK_VARIABLE: "1",
    # vLLM asks the routing table instead of Ray
    "VLLM_HOST_IP": LOOPBACK,
    # gloo listens where the machine's name points to
    "GLOO_SOCKET_IFNAME": "lo",
}
"""What the processes of the run are told; a value that the user has set stays."""


def keep_to_loopback(config: DictConfig) -> bool:
    """Make the Ray that this run starts listen on 127.0.0.1 alone, and with it what asks Ray for an address:
    verl's servers, its process groups, the transfer queue.

    Nothing happens with `docagent.loopback=false`, on several nodes, in a Ray that runs already, or when
    `ray_kwargs.ray_init._node_ip_address` is set. Sockets that stay open to the network are listed in
    `docs/security.md`.

    Args:
        config: the composed configuration; `ray_kwargs.ray_init` is changed, and the variable that the patch
            `ray_loopback` reads is set in this process.

    Returns:
        Whether the run keeps to loopback.
    """
    if not OmegaConf.select(config, "docagent.loopback", default=True) or not _is_alone(config):
        return False
    os.environ[LOOPBACK_VARIABLE] = VARIABLES[LOOPBACK_VARIABLE]
    with open_dict(config):
        OmegaConf.update(config, f"{RAY}.{ADDRESS_KEY}", LOOPBACK)
        given = OmegaConf.select(config, f"{RAY}.runtime_env.env_vars") or {}
        for name, value in VARIABLES.items():
            if name not in given:
                OmegaConf.update(config, f"{RAY}.runtime_env.env_vars.{name}", os.environ.get(name, value))
    return True


def _is_alone(config: DictConfig) -> bool:
    """Whether the run starts a Ray of its own and asks for no second node."""
    settings = OmegaConf.select(config, RAY) or {}
    if settings.get(ADDRESS_KEY) is not None:
        return False
    if any(int(OmegaConf.select(config, key) or 0) > 1 for key in NODES):
        return False
    return starts_ray(config)


def starts_ray(config: DictConfig) -> bool:
    """Whether the run starts a Ray of its own, because it is given none and none runs on this machine.

    Args:
        config: the composed configuration.
    """
    from ray._private.services import canonicalize_bootstrap_address

    settings = OmegaConf.select(config, RAY) or {}
    try:
        # the address, RAY_ADDRESS or a Ray that `ray start` left on this machine, in Ray's own order
        address, folder = settings.get("address"), settings.get("_temp_dir")
        # Ray's own callers give it no address either
        return canonicalize_bootstrap_address(address, folder) is None  # ty: ignore[invalid-argument-type]
    except (ConnectionError, ValueError):  # ray.init says it better
        return False
