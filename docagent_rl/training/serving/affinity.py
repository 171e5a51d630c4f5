"""Which rollout server plays which trajectory: those of a question share its pages, and its prefix."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

SHARES = 4
"""Groups of trajectories that each server should have at least, so that long ones even out."""


def route(uid: str, trajectory: int, *, trajectories: int, prompts: int, servers: int) -> str:
    """The name under which verl's balancer sends a trajectory's requests to one server.

    Trajectories of one name go to the same server, a name that is new to the one with the fewest requests. A
    question's trajectories have one name as long as that leaves every server `SHARES` of them; otherwise they
    are split, down to a name for each.

    Args:
        uid: of the question in this step.
        trajectory: number of the trajectory.
        trajectories: of each question.
        prompts: questions of a step.
        servers: that play.
    """
    wanted = -(-SHARES * servers // max(prompts, 1))  # names that each question should have
    size = max(1, trajectories // wanted)
    return f"{uid}-{trajectory // size}"


def servers_of(run: DictConfig) -> int:
    """How many rollout servers a composed configuration has, on the trainer's GPUs or on their own."""
    rollout = run.actor_rollout_ref.rollout
    sizes = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    needed = 1
    for name in sizes:
        needed *= int(rollout.get(name) or 1)
    apart = int(rollout.get("nnodes") or 0) * int(rollout.get("n_gpus_per_node") or 0)
    nodes = OmegaConf.select(run, "trainer.nnodes", default=1)
    together = int(nodes) * int(OmegaConf.select(run, "trainer.n_gpus_per_node", default=1))
    return max(1, (apart or together) // needed)
