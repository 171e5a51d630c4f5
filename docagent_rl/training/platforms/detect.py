"""Whether this process trains on the CPU."""

from __future__ import annotations

import functools
import importlib.metadata
import os

CPU_PLATFORM = "cpu"


@functools.cache
def is_cpu_platform() -> bool:
    """Tell whether verl's platform in this process is, or will be, `cpu`.

    True if `VERL_PLATFORM=cpu`; or if that variable is unset, no accelerator platform known to verl finds
    its device on this host, and vLLM is not installed as a build for accelerators. The last condition
    keeps verl's own choice on the head node of a GPU cluster, which may hold no GPU itself. The answer is
    computed once per process, by verl's own probes in verl's own order.
    """
    override = os.environ.get("VERL_PLATFORM", "").strip().lower()
    if override:
        return override == CPU_PLATFORM
    return not has_accelerator_vllm() and not _accelerator_platforms()


def has_accelerator_vllm() -> bool:
    """Tell whether vLLM is installed as something else than a CPU build (vLLM's own test of the version)."""
    try:
        return "cpu" not in importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return False


def _accelerator_platforms() -> list[str]:
    """Return the registered platforms that find their device, at most one: the first in verl's order."""
    from verl.plugin.platform import PlatformRegistry

    for name in PlatformRegistry.registered_names():
        platform = PlatformRegistry.get(name)
        if name != CPU_PLATFORM and platform and platform().is_platform_available(use_smi_check=True):
            return [name]
    return []
