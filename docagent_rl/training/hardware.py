"""The platform of this process, and its attention kernels for packed rows: flash-attn's or
torch's.
"""

import functools
import importlib.metadata
import importlib.util
import os

from packaging.version import Version

CPU_PLATFORM = "cpu"
OLDEST_FLASH_ATTN = "2.3.3"
"""transformers 5.9 does not support anything older (`is_flash_attn_2_available`)."""


@functools.cache
def is_cpu_platform() -> bool:
    """Return whether verl's platform in this process is, or will be, `cpu`.

    It is if `VERL_PLATFORM=cpu`; or if that variable is not set, no accelerator platform of verl
    finds its device on this host, and the installed vLLM is not a build for accelerators. The last
    condition keeps verl's own choice on the head node of a GPU cluster, which may have no GPU
    itself. The result is computed once per process, with verl's own probes in verl's own order.
    """
    override = os.environ.get("VERL_PLATFORM", "").strip().lower()
    if override:
        return override == CPU_PLATFORM
    if has_accelerator_vllm():
        return False
    from verl.plugin.platform import PlatformRegistry

    for name in PlatformRegistry.registered_names():
        platform = PlatformRegistry.get(name)
        if (
            name != CPU_PLATFORM
            and platform
            and platform().is_platform_available(use_smi_check=True)
        ):
            return False
    return True


def has_accelerator_vllm() -> bool:
    """Return whether vLLM is installed and is not a CPU build (by vLLM's own test)."""
    try:
        return "cpu" not in importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return False


TORCH_VARLEN = "torch.nn.attention.varlen"
"""torch's implementation of `flash_attention_2`."""


def without_flash_attn() -> bool:
    """Return whether this process uses torch's kernels in place of flash-attn's.

    flash-attn is used if verl and transformers would use it. It does not support CPUs, so the CPU
    platform always uses torch. This function neither imports transformers nor initialises an
    accelerator, as patches call it at the start of every process.
    """
    return flash_attn_version() is None or is_cpu_platform()


def flash_attn_version() -> str | None:
    """Return the installed version of flash-attn, or None if transformers would not use it."""
    if importlib.util.find_spec("flash_attn") is None:
        return None
    try:
        installed = importlib.metadata.version("flash-attn")
    except importlib.metadata.PackageNotFoundError:
        return None  # flash-attn 4 has the same package in a distribution of another name
    return installed if Version(installed) >= Version(OLDEST_FLASH_ATTN) else None


def installed_version(package: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
