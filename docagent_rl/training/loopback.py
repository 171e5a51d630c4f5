"""A run on one machine listens on loopback, where Ray, verl and vLLM allow it."""

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
"""Variables of the run's processes; a value that the user has set stays."""


def keep_to_loopback(config: DictConfig) -> bool:
    """Make the Ray that this run starts listen on 127.0.0.1 alone; return whether that was done.

    With it goes what asks Ray for an address: verl's servers, its process groups, the transfer
    queue. Nothing happens with `docagent.loopback=false`, on several nodes, in a Ray that runs
    already, or when `ray_kwargs.ray_init._node_ip_address` is set. Sockets that stay open to the
    network are listed in `docs/security.md`. `config` is changed, and the variable that the patch
    `ray_loopback` reads is set.
    """
    settings = OmegaConf.select(config, RAY) or {}
    several = any(int(OmegaConf.select(config, key) or 0) > 1 for key in NODES)
    if not OmegaConf.select(config, "docagent.loopback", default=True) or several:
        return False
    if settings.get(ADDRESS_KEY) is not None or not starts_ray(config):
        return False
    os.environ[LOOPBACK_VARIABLE] = VARIABLES[LOOPBACK_VARIABLE]
    with open_dict(config):
        OmegaConf.update(config, f"{RAY}.{ADDRESS_KEY}", LOOPBACK)
        given = OmegaConf.select(config, f"{RAY}.runtime_env.env_vars") or {}
        for name, value in VARIABLES.items():
            if name not in given:
                OmegaConf.update(
                    config, f"{RAY}.runtime_env.env_vars.{name}", os.environ.get(name, value)
                )
    return True


def starts_ray(config: DictConfig) -> bool:
    """Return whether the run starts its own Ray: it is given none, and none runs on this
    machine.
    """
    from ray._private.services import canonicalize_bootstrap_address

    settings = OmegaConf.select(config, RAY) or {}
    try:
        # the address, RAY_ADDRESS or a Ray that `ray start` left on this machine, in Ray's own
        # order
        address = settings.get("address")
        folder = settings.get("_temp_dir")
        # Ray's own callers give it no address either
        return canonicalize_bootstrap_address(address, folder) is None  # ty: ignore[invalid-argument-type]
    except (ConnectionError, ValueError):  # ray.init says it better
        return False
