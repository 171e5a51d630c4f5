"""Count the GPUs of a machine, and find the servers elsewhere that its environment names."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from docagent_rl.checks.cards import speed
from docagent_rl.lab.papers.manifest import PaperService


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
        return speed(self.card).operations


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


def wanted(service: PaperService) -> bool:
    """Return whether a service must be started here, since its variable names no other server."""
    return not os.environ.get(service.variable)


def trainer_size(gpus: int) -> int:
    """Return how many of these GPUs a trainer takes alone: the largest power of two, at least 1."""
    return 1 << max(gpus, 1).bit_length() - 1


def restricted(own: tuple[int, ...], all_gpus: int) -> dict[str, str]:
    """Return the variable that restricts a process to its own GPUs.

    It is not needed if the process has all GPUs of the machine, or there are none.
    """
    return {} if all_gpus == 0 or len(own) == all_gpus else cuda_devices(own)


def cuda_devices(gpus: tuple[int, ...]) -> dict[str, str]:
    """Return the variable that restricts a process to some GPUs."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if gpus else {}
