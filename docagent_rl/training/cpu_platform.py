"""The platform `cpu`: verl's device interface for a CPU, with gloo and without an accelerator."""

import os
import platform as host
import resource
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from docagent_rl.training.hardware import CPU_PLATFORM, has_accelerator_vllm, is_cpu_platform
from docagent_rl.training.patching import on_import

ENGINE_MODULE = "verl.workers.engine.fsdp.transformer_impl"


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: a CPU is synchronous, and has no cache, memory fraction, peak or profiler."""


def _always(value: Any) -> Any:
    """Return a method that ignores its arguments and returns a value."""
    return staticmethod(lambda *_, **__: value)


class CpuDeviceModule(ModuleType):
    """A replacement for `torch.cuda`: the functions that verl calls on `get_torch_device()`.

    The CPU is one device, however many cores it has. Memory is the process's resident set and the
    host's physical memory, in bytes. Whatever is not defined here comes from `torch.cpu` (streams,
    events).
    """

    set_device = synchronize = empty_cache = ipc_collect = staticmethod(_nothing)
    set_per_process_memory_fraction = reset_peak_memory_stats = staticmethod(_nothing)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    is_available = _always(True)
    device_count = _always(1)
    current_device = _always(0)
    set_rng_state = staticmethod(lambda state, device=None: torch.set_rng_state(state))
    get_rng_state = staticmethod(lambda device=None: torch.get_rng_state())

    def __init__(self) -> None:
        super().__init__("docagent_rl.training.cpu_device", "torch.cuda's functions for the CPU")

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name)

    def memory_allocated(self, device: object = None) -> int:
        """Return the size of this process's resident set in bytes."""
        return psutil.Process().memory_info().rss

    def max_memory_allocated(self, device: object = None) -> int:
        """Return the largest size of this process's resident set so far, in bytes."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    memory_reserved = memory_allocated
    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        """Return the available and the total memory of the host, in bytes."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    def get_device_name(self, device: object = None) -> str:
        """Return the CPU's name, or its architecture if the system does not provide a name."""
        return host.processor() or host.machine()

    def get_device_properties(self, device: object = None) -> SimpleNamespace:
        """Return `name`, `total_memory` (bytes) and `multi_processor_count` (logical cores)."""
        return SimpleNamespace(
            name=self.get_device_name(),
            total_memory=psutil.virtual_memory().total,
            multi_processor_count=os.cpu_count() or 1,
        )


class PlatformCPU(PlatformBase):
    """verl's platform for a CPU.

    Engines are registered for the device `cpu`, not for a vendor. Ray's resource is called `GPU`,
    because verl's resource pools count GPUs: a run sets `ray_kwargs.ray_init.num_gpus` to the
    number of workers that it needs.
    """

    device_name = vendor_name = CPU_PLATFORM
    device_module = CpuDeviceModule()
    set_device = synchronize = set_allocator_settings = empty_cache = cudart = staticmethod(
        _nothing
    )
    profiler_start = profiler_stop = staticmethod(_nothing)
    is_available = _always(True)
    device_count = _always(1)
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    ray_resource_name = _always("GPU")
    # prevents Ray from hiding devices
    ray_noset_envvars = _always(["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"])
    # verl declares an integer, but passes it to `.to()`, where an integer means an accelerator
    current_device = _always(torch.device("cpu"))
    # weights are sent to the rollout through shared memory
    is_ipc_supported = _always(False)

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return whether auto-detection may choose the CPU after no accelerator was found."""
        return not has_accelerator_vllm()

    def manual_seed(self, seed: int) -> None:
        """Seed torch's default generator."""
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    @contextmanager
    def nvtx_range(self, msg: str) -> Generator[None]:
        """Run the block without a profiler range."""
        yield

    def rollout_env_vars(self) -> dict[str, str]:
        """Return the environment of rollout servers, which turns compilation off.

        vLLM on a CPU compiles some functions even with `enforce_eager`, which takes half a minute
        per start; the user's `TORCHDYNAMO_DISABLE=0` allows it.
        """
        return {"TORCHDYNAMO_DISABLE": os.environ.get("TORCHDYNAMO_DISABLE", "1")}


def register_cpu_platform() -> None:
    """Register the platform and, when verl imports them, the FSDP2 engines for the device `cpu`.

    It must be called before the first `get_platform()`. It does nothing if verl will use an
    accelerator, or if it has been called before.
    """
    if is_cpu_platform() and PlatformRegistry.get(CPU_PLATFORM) is not PlatformCPU:
        PlatformRegistry.register(platform=CPU_PLATFORM)(PlatformCPU)
        on_import(ENGINE_MODULE, _register_engines)


def _register_engines(module: ModuleType) -> None:
    from verl.workers.engine.base import EngineRegistry

    engines = {
        "language_model": module.FSDPEngineWithLMHead,
        "value_model": module.FSDPEngineWithValueHead,
    }
    for model_type, engine in engines.items():
        EngineRegistry.register(model_type=model_type, backend="fsdp2", device="cpu")(engine)


# Registration on import also works if this module is the first to import verl and so the plugin.
register_cpu_platform()
