"""Find the hardware of this machine."""

from __future__ import annotations

import importlib.util
import os

from tools.gpu_check.check import Machine


def this_machine() -> Machine:
    """Return this machine with its first GPU, or without it if `VERL_PLATFORM=cpu` is set."""
    import torch

    vllm = importlib.util.find_spec("vllm") is not None
    if os.environ.get("VERL_PLATFORM") == "cpu" or not torch.cuda.is_available():
        return Machine(None, 0.0, vllm)
    properties = torch.cuda.get_device_properties(0)
    return Machine(properties.name, properties.total_memory / 2**30, vllm)
