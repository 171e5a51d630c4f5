"""The start of agent workers, and of the search actors that they share."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import ray
from omegaconf import DictConfig
from ray.exceptions import GetTimeoutError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.retrieval.opening import start_search_actors
from docagent_rl.retrieval.service.ray_actors import RayRetriever
from docagent_rl.training.serving.replacing import START_S


def start_search(run: DictConfig) -> list[RayRetriever]:
    """Start the search actors of a run, which end with this process.

    An actor ends with the process that has created it. So agent workers, which may die and be
    replaced, must not create any.

    Raises:
        InfrastructureError: an actor does not start, or not in time.
    """
    section = DocAgentConfig.parse(plain_section(run.docagent))
    return start_search_actors(section.retrievers(), section.open_store)


def worker_nodes() -> list[str]:
    """Return the ids of the nodes on which verl starts agent workers."""
    alive = (node for node in ray.nodes() if node["Alive"])
    return [node["NodeID"] for node in alive if node["Resources"].get("CPU", 0) > 0]


def worker_options(number: int) -> dict[str, Any]:
    """Return the options with which verl would start the agent worker of this number."""
    nodes = worker_nodes()
    place = NodeAffinitySchedulingStrategy(nodes[number % len(nodes)], soft=True)
    name = f"agent_loop_worker_{number}_{uuid4().hex[:8]}"
    return {"name": name, "scheduling_strategy": place}


def await_start(answers: Sequence[ray.ObjectRef]) -> None:
    """Wait for the answers of new agent workers.

    Raises:
        InfrastructureError: a worker has not started in time.
        ray.exceptions.RayError: a worker could not be started.
    """
    try:
        ray.get([*answers], timeout=START_S)
    except GetTimeoutError:
        raise InfrastructureError(
            f"an agent worker that replaces a dead one did not start within {START_S:g} s"
        ) from None
