"""Divide the GPUs of a machine among the trainer and the models that it needs."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from docagent_rl.base.errors import UserError
from docagent_rl.lab.papers.manifest import PaperService

PEAK: Mapping[str, float] = {
    "a10": 125e12,
    "l4": 121e12,
    "rtx3090": 71e12,
    "rtx4090": 165e12,
    "rtx5090": 209e12,
    "a100-40": 312e12,
    "l40s": 362e12,
    "a6000": 155e12,
    "a100-80": 312e12,
    "h100": 989e12,
    "h200": 989e12,
}
"""Dense bfloat16 operations per second by card, from the data sheets."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A number of GPUs of one kind (`card`)."""

    gpus: int
    card: str

    @property
    def peak(self) -> float:
        """Dense bfloat16 operations per second of one GPU.

        Raises:
            UserError: the card is not known.
        """
        if self.card not in PEAK:
            raise UserError(f"--gpu-memory {self.card}: choose from {', '.join(PEAK)}")
        return PEAK[self.card]


@dataclass(frozen=True, slots=True)
class Placement:
    """The numbers of the GPUs that each process gets."""

    trainer: tuple[int, ...]
    services: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    retriever: tuple[int, ...] = ()
    """The GPU of the retriever's model; empty if it runs on CPUs."""
    elsewhere: tuple[str, ...] = ()
    """Services for which no GPU is left."""

    def devices(self, all_gpus: int) -> dict[str, str]:
        """Return the variable that restricts the trainer and the retriever to their GPUs.

        It is not needed if the trainer has all GPUs of the machine, or there are none.
        """
        if all_gpus == 0 or len(self.trainer) == all_gpus:
            return {}
        return cuda_devices(self.trainer + self.retriever)


def count_gpus() -> int:
    """Return the number of GPUs that `nvidia-smi` lists; 0 without that program."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        answer = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())


def share_gpus(machine: Machine, services: Mapping[str, PaperService]) -> Placement:
    """Divide GPUs: the trainer gets the largest power of two that leaves room for the services.

    Services get the last GPUs, in their order, as long as the trainer keeps one; the retriever gets
    a GPU that is left over.
    """
    free = list(range(machine.gpus))
    placed: dict[str, tuple[int, ...]] = {}
    elsewhere = []
    for name, service in services.items():
        if not wanted(service):
            continue
        if not service.served or len(free) <= service.gpus:
            elsewhere.append(name)
            continue
        placed[name] = tuple(free[-service.gpus :])
        del free[-service.gpus :]
    size = 1 << max(len(free), 1).bit_length() - 1
    trainer = tuple(free[:size]) or (0,)
    return Placement(trainer, placed, tuple(free[size : size + 1]), tuple(elsewhere))


def wanted(service: PaperService) -> bool:
    """Return whether a service must be started here, since its variable names no other server."""
    return not os.environ.get(service.variable)


def cuda_devices(gpus: tuple[int, ...]) -> dict[str, str]:
    """Return the variable that restricts a process to some GPUs."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if gpus else {}
