"""Make a run on one machine listen only on the loopback interface, as far as possible."""

import os

from omegaconf import DictConfig, OmegaConf, open_dict

LOOPBACK = "127.0.0.1"
LOOPBACK_VARIABLE = "DOCAGENT_LOOPBACK"
"""Environment variable that the patch `ray_loopback` reads."""
RAY = "ray_kwargs.ray_init"
ADDRESS_KEY = "_node_ip_address"
NODES = (
    "trainer.nnodes",
    "actor_rollout_ref.rollout.nnodes",
    "reward.reward_model.nnodes",
    "distillation.nnodes",
)
"""All keys with a number of nodes."""
VARIABLES = {
    LOOPBACK_VARIABLE: "1",
    # vLLM takes its address from the routing table, not from Ray
    "VLLM_HOST_IP": LOOPBACK,
    # gloo listens on the address that the host name resolves to
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Environment variables of the run's processes; values set by the user take precedence."""


def keep_to_loopback(config: DictConfig) -> bool:
    """Make the Ray that this run starts listen only on 127.0.0.1; return whether that was done.

    Everything that gets its address from Ray follows: verl's servers, its process groups and the
    transfer queue. Nothing is done with `docagent.loopback=false`, on several nodes, if Ray is
    already running, or if `ray_kwargs.ray_init._node_ip_address` is set. `docs/security.md` lists
    the sockets that remain open to the network. This function changes `config`, and sets the
    variable that the patch `ray_loopback` reads.
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
    """Return whether the run starts Ray: no address is given, and none is running on this
    machine.
    """
    from ray._private.services import canonicalize_bootstrap_address

    settings = OmegaConf.select(config, RAY) or {}
    try:
        # the configured address, RAY_ADDRESS, or the file that `ray start` left on this machine, in
        # Ray's own order
        address = settings.get("address")
        folder = settings.get("_temp_dir")
        # Ray's own callers also pass None as the address
        return canonicalize_bootstrap_address(address, folder) is None  # ty: ignore[invalid-argument-type]
    except (ConnectionError, ValueError):  # `ray.init` reports this better
        return False
