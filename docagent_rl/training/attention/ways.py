"""Which of the two ways of attention over packed rows a process takes."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import sys

from packaging.version import Version

FLASH_ATTN_VERSION = "2.8.3"
"""What verl 0.9.1 asks for in its extra `flash-attn-cu130torch211`."""
OLDEST_FLASH_ATTN = "2.3.3"
"""transformers 5.9 takes nothing older (`is_flash_attn_2_available`)."""


class AttentionWay(enum.Enum):
    """Who computes `flash_attention_2`."""

    FLASH_ATTN = "flash-attn"
    TORCH_VARLEN = "torch.nn.attention.varlen"


def attention_way() -> AttentionWay:
    """Return the way of this process: flash-attn where verl and transformers would use it, else torch's.

    flash-attn knows no processor, so that the CPU platform always goes the other way. Imports nothing of
    transformers and asks no accelerator: patches ask at the start of every process.
    """
    from docagent_rl.training.platforms.detect import is_cpu_platform

    if flash_attn_version() is None or is_cpu_platform():
        return AttentionWay.TORCH_VARLEN
    return AttentionWay.FLASH_ATTN


def without_flash_attn() -> bool:
    """Tell whether this process needs what flash-attn would bring."""
    return attention_way() is AttentionWay.TORCH_VARLEN


def flash_attn_version() -> str | None:
    """Return the installed version of flash-attn, or None if there is none that transformers would take."""
    if importlib.util.find_spec("flash_attn") is None:
        return None
    try:
        installed = importlib.metadata.version("flash-attn")
    except importlib.metadata.PackageNotFoundError:  # flash-attn 4 has the same package under another name
        return None
    return installed if Version(installed) >= Version(OLDEST_FLASH_ATTN) else None


def fitting_flash_attn(torch_version: str, cuda_version: str | None) -> str:
    """Describe the build of flash-attn that fits an environment.

    Args:
        torch_version: such as `2.11.0+cu130`.
        cuda_version: the CUDA that torch was built for, such as `13.0`; None for builds without CUDA.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    torch_release = Version(torch_version)
    cuda = f"CUDA {cuda_version.partition('.')[0]}" if cuda_version else "CUDA"
    return (
        f"flash-attn {FLASH_ATTN_VERSION} for {cuda}, torch {torch_release.major}.{torch_release.minor}, "
        f"{python}, cxx11abiTRUE: a wheel of that build, or from source with nvcc of the same CUDA: "
        f"pip install --no-build-isolation --no-deps flash-attn=={FLASH_ATTN_VERSION}"
    )
