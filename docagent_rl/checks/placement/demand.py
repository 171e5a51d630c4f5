"""What a run asks of GPUs: its trainer, by number of GPUs, and the models that others serve."""

from collections.abc import Mapping
from dataclasses import dataclass

from docagent_rl.checks.budget import CONTEXT, SERVER_WORKSPACE, Server
from docagent_rl.checks.passes import Model

_MOST_PARALLEL = 8
"""Most GPUs that share one copy of a service's model: those of a usual node."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The GPUs that are there, all of one kind."""

    nodes: int
    gpus_per_node: int
    usable: int
    """Bytes that processes may fill on each GPU."""

    @property
    def gpus(self) -> int:
        """The number of all GPUs."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class TrainerLayout:
    """A trainer on a number of GPUs, with what it then needs on each."""

    nodes: int
    gpus_per_node: int
    size: int
    """Bytes on a GPU in the phase that needs most."""
    place: str
    """The name of that phase."""
    overrides: tuple[str, ...] = ()
    """Overrides of the launch command without which the sizes would not hold."""

    @property
    def gpus(self) -> int:
        """The number of GPUs of all nodes."""
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True, slots=True)
class ServiceDemand:
    """A model behind a server of its own, which judges or plays one or several roles."""

    name: str
    model: str
    """Name on the hub, or folder."""
    sizes: Model
    context: int
    """Tokens of the longest request with its reply."""
    concurrency: int
    """Number of requests that are expected at the same time."""
    port: int
    keys: tuple[str, ...] = ()
    """Configuration keys of its address."""
    variable: str | None = None
    """Environment variable from which the recipe reads that address."""
    images: int = 0
    """Most images of a request."""

    @property
    def parallel_sizes(self) -> tuple[int, ...]:
        """The numbers of GPUs that can share a copy of the model: they divide its key heads."""
        sizes = (1 << power for power in range(_MOST_PARALLEL.bit_length()))
        return tuple(size for size in sizes if self.sizes.key_heads % size == 0)

    def fixed(self, gpus: int) -> int:
        """Return the bytes on each of the GPUs that share a copy, without its cache."""
        return self._server(gpus).weights + SERVER_WORKSPACE + CONTEXT

    def request(self, gpus: int) -> int:
        """Return the bytes that the cache of one longest request takes on each of the GPUs."""
        return self._server(gpus).trajectory

    def least(self, gpus: int) -> int:
        """Return the bytes on each GPU with which the server starts: one request must fit."""
        return self.fixed(gpus) + self.request(gpus)

    def _server(self, gpus: int) -> Server:
        return Server(self.sizes, share=1, gpus=gpus, longest=self.context, sleeps=False)


@dataclass(frozen=True, slots=True)
class Needs:
    """All that a run asks of GPUs."""

    recipe: str
    layouts: tuple[TrainerLayout, ...]
    """The trainer on the numbers of GPUs that its batches allow."""
    services: tuple[ServiceDemand, ...]
    elsewhere: Mapping[str, str]
    """Addresses of services on other machines, by the role; they need no GPU here."""
    adapts: bool = False
    """Only adapters are trained."""
    retriever: str | None = None
    """The model of a retriever that may use a GPU which nothing else needs."""
