"""The commands that start a planned run: its servers, then its trainer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docagent_rl.checks.placement.demand import Needs
from docagent_rl.checks.placement.plan import PlacedService, Plan, trainer_gpus
from docagent_rl.checks.recipe_list import ROOT, located

LOOPBACK = "127.0.0.1"
DEVICES = "CUDA_VISIBLE_DEVICES"
API_KEY = "VLLM_API_KEY"
"""Variable of the key that servers on several nodes ask for (vLLM's own)."""
_SHARE_STEPS = 1000
"""vLLM's share of a GPU is rounded up to a thousandth."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names by which the nodes of a plan reach each other."""

    several: bool
    """True if servers and trainer are on several nodes; otherwise all use the loopback address."""
    prefix: str = "NODE"
    """The name of a node without its number."""
    suffix: str = ""

    def of(self, node: int) -> str:
        """Return the name of a node."""
        return f"{self.prefix}{node}{self.suffix}" if self.several else LOOPBACK

    @property
    def listening(self) -> str:
        """The address on which servers listen; on several nodes they also ask for a key."""
        return "0.0.0.0" if self.several else LOOPBACK


@dataclass(frozen=True, slots=True)
class PlannedProcess:
    """A process of a planned run."""

    name: str
    node: int
    """The number of the node on which it is started."""
    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    """The port on which it answers `/health`; None for the trainer."""
    after: tuple[str, ...] = ()
    """Servers that have to answer first: those on the same GPU measure its memory in turn."""


def planned_servers(plan: Plan, seen: int, host: str = LOOPBACK) -> list[PlannedProcess]:
    """Return the servers in the order in which they start; `seen` bytes of a GPU are visible."""
    found: list[PlannedProcess] = []
    for number, service in enumerate(plan.services):
        earlier = plan.services[:number]
        beside = tuple(each.demand.name for each in earlier if _share_a_gpu(each, service))
        found.append(
            PlannedProcess(
                name=service.demand.name,
                node=service.node,
                words=tuple(serve_words(service, seen, host)),
                environment={DEVICES: ",".join(map(str, service.gpus))},
                port=service.demand.port,
                after=beside,
            )
        )
    return found


def serve_words(service: PlacedService, seen: int, host: str) -> list[str]:
    """Return the command of a server."""
    demand = service.demand
    share = math.ceil(service.size * _SHARE_STEPS / seen) / _SHARE_STEPS
    words = ["vllm", "serve", demand.model, "--served-model-name", demand.model]
    words += ["--host", host, "--port", str(demand.port)]
    words += ["--tensor-parallel-size", str(service.parallel)]
    if service.replicas > 1:
        words += ["--data-parallel-size", str(service.replicas)]
    words += ["--max-model-len", str(demand.context), "--gpu-memory-utilization", f"{share:g}"]
    if demand.images:
        words += ["--limit-mm-per-prompt", f'{{"image": {demand.images}, "video": 0}}']
    return words


def planned_trainer(
    needs: Needs, plan: Plan, hosts: Hosts, overrides: Sequence[str] = ()
) -> PlannedProcess:
    """Return the trainer, with the addresses of the servers and a command's own overrides."""
    layout = plan.trainer
    name, root = located(needs.recipe)
    folder = [] if root is ROOT else ["--config-dir", str(root)]
    words = ["python", "-m", "verl.trainer.main_ppo", *folder, "--config-name", name, *overrides]
    words += [f"trainer.nnodes={layout.nodes}", f"trainer.n_gpus_per_node={layout.gpus_per_node}"]
    words += layout.overrides
    environment = {DEVICES: ",".join(map(str, trainer_devices(plan)))}
    for service in plan.services:
        demand = service.demand
        address = f"http://{hosts.of(service.node)}:{demand.port}/v1"
        if demand.variable is not None:
            environment[demand.variable] = address
        else:
            words += [f"{key}={address}" for key in demand.keys]
        if hosts.several:
            sections = (key.removesuffix(".base_url") for key in demand.keys)
            words += [f"++{section}.api_key_env={API_KEY}" for section in sections]
    if plan.retriever is not None:
        words.append("docagent.retriever.service.num_gpus=1")
        words.append("docagent.retriever.encoder.device=cuda")
    return PlannedProcess("trainer", 0, tuple(words), environment)


def trainer_devices(plan: Plan) -> list[int]:
    """Return the numbers of the GPUs that the trainer's Ray sees on each of its nodes."""
    found = {gpu for _, gpu in trainer_gpus(plan.trainer)}
    return sorted(found | ({plan.retriever[1]} if plan.retriever is not None else set()))


def _share_a_gpu(one: PlacedService, other: PlacedService) -> bool:
    return one.node == other.node and bool(set(one.gpus) & set(other.gpus))
