"""Asks every node of a cluster what it sees, before any model is loaded."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from omegaconf import DictConfig
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import clean
from docagent_rl.training.nodes.report import NodeReport, inspect_node

logger = logging.getLogger(__name__)

ATTACHED_VARIABLE = "DOCAGENT_ATTACHED"
"""Set where the run did not start its Ray: then a node's environment is not that of the driver."""
LIMIT_S = 300.0
"""For the answers of all nodes: the first task on a node starts a process, which imports the package."""
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster that processes of the run may be placed on."""

    id: str
    address: str

    def __str__(self) -> str:
        return f"{self.address} ({self.id[:8]})"


def check_nodes(config: DictConfig, *, embeds: bool) -> None:
    """Let every node look at the run's files and services, at the same time.

    Nothing is asked where the run started its Ray and has one node: the driver has looked.

    Args:
        config: the composed configuration, without interpolations.
        embeds: the estimator reads `docagent.advantage.embedder`.

    Raises:
        UserError: a node lacks something, does not answer, or sees something else than the others; every
            problem of every node is in the one message.
    """
    nodes = usable_nodes(ray.nodes())
    if len(nodes) < 2 and not os.environ.get(ATTACHED_VARIABLE):
        return
    reports = _ask(nodes, config, embeds)
    if message := problem_message(reports):
        raise UserError(message)
    logger.info("%d nodes see the same files and services: %s", len(nodes), ", ".join(map(str, nodes)))


def usable_nodes(rows: Sequence[Mapping[str, Any]]) -> list[Node]:
    """The nodes that verl may use, by address; agent loops go to all that have a CPU.

    Args:
        rows: as `ray.nodes()` gives them.
    """
    alive = (row for row in rows if row["Alive"])
    found = [
        Node(row["NodeID"], row["NodeManagerAddress"])
        for row in alive
        if row["Resources"].get("CPU", 0) > 0 or row["Resources"].get("GPU", 0) > 0
    ]
    return sorted(found, key=lambda node: (node.address, node.id))


def problem_message(reports: Mapping[Node, NodeReport]) -> str | None:
    """One message about everything that is wrong, or none.

    Args:
        reports: of all nodes.
    """
    lines = [f"{node}: {clean(problem)}" for node, report in reports.items() for problem in report.problems]
    named = dict.fromkeys(name for report in reports.values() for name in report.seen)
    lines += filter(None, (_difference(name, reports) for name in named))
    if not lines:
        return None
    advice = "Every node has to see the same files under the same paths, and to reach the same services"
    if any("environment variable" in line for line in lines):
        advice += "; a node's environment is that of its `ray start`, or of its container"
    return f"{len(reports)} nodes were asked what they see:\n  " + "\n  ".join(lines) + f"\n  {advice}."


def _difference(name: str, reports: Mapping[Node, NodeReport]) -> str | None:
    groups: dict[str, list[Node]] = {}
    for node, report in reports.items():
        if name in report.seen:
            groups.setdefault(str(report.seen[name]), []).append(node)
    if len(groups) < 2:
        return None
    parts = (f"{what} on {', '.join(map(str, nodes))}" for what, nodes in groups.items())
    return f"{name} is not the same everywhere: {'; '.join(parts)}"


def _ask(nodes: Sequence[Node], config: DictConfig, embeds: bool) -> dict[Node, NodeReport]:
    task = ray.remote(num_cpus=0, max_retries=0)(inspect_node)
    asked = {
        node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote(
            config, embeds
        )
        for node in nodes
    }
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=LIMIT_S)
    return {node: _answer(answer) for node, answer in asked.items()}


def _answer(reference: Any) -> NodeReport:
    try:
        return ray.get(reference, timeout=0.1)
    except GetTimeoutError:
        return NodeReport((f"it has not answered in {LIMIT_S:g} s: its disks or its network may hang",))
    except RayError as error:  # a package that is not installed there, a node that died
        said = str(getattr(error, "cause", None) or error).strip().splitlines() or [type(error).__name__]
        return NodeReport((f"it cannot look: {type(error).__name__}: {said[-1][:_LONGEST]}",))
