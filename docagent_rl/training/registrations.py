"""List what is registered with verl, and the state of patches: in this process, a Ray worker, and a
vLLM worker.
"""

import importlib
import logging
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from docagent_rl.training.patching import ProcessKind, patch_status

logger = logging.getLogger(__name__)

AGENT_LOOP = "docagent"
AGENT_LOOP_CLASS = "docagent_rl.training.agent_loop.loop.DocAgentLoop"
PROBE_EXTENSION = "docagent_rl.training.vllm_extension.ProbeExtension"
PROBE_EXECUTOR = "docagent_rl.training.vllm_executor"


@dataclass(frozen=True)
class Registered:
    """Names that verl can look up in one process, sorted."""

    platform: str
    """verl's device in this process: cpu, cuda, npu."""
    platforms: list[str]
    agent_loops: list[str]
    trainer_modes: list[str]
    estimators: list[str]
    policy_losses: list[str]
    engines: list[str]
    """The training engines for the active device, as `model type/backend`."""
    patches: dict[str, str] = field(default_factory=dict)
    """The state of each patch, by name."""
    needed: dict[str, dict[str, str]] = field(default_factory=dict)
    """The reasons of the patches that each kind of process must have, by name."""
    core_patches: dict[str, str] | None = None
    """For a vLLM worker: the state of each patch in the core of its engine."""


def replace_agent_loop(target: str) -> None:
    """Make verl play with another subclass of `DocAgentLoop` in this process, by its full name."""
    from verl.experimental.agent_loop import agent_loop

    agent_loop._agent_loop_registry[AGENT_LOOP] = {"_target_": target}


def registered() -> Registered:
    """Import verl's modules in this process, which loads the plugin, and list their registries.

    Raises:
        ImportError: a module of verl, or one that a hook imports, is missing or broken.
    """
    from verl.experimental.agent_loop import agent_loop
    from verl.plugin.platform import PlatformRegistry, get_platform
    from verl.trainer.ppo import core_algos
    from verl.trainer.ppo.v1 import trainer_base
    from verl.workers.engine import EngineRegistry

    for status in patch_status():
        for module in status.waiting:  # import it, so that the status says if the patch applies
            try:
                importlib.import_module(module)
            except ImportError as error:
                logger.warning("patch %s: %s cannot be imported: %s", status.name, module, error)
    importlib.import_module(AGENT_LOOP_CLASS.rpartition(".")[0])  # verl only has its name
    device = get_platform().device_name
    return Registered(
        platform=device,
        platforms=sorted(PlatformRegistry.registered_names()),
        agent_loops=sorted(agent_loop._agent_loop_registry),
        trainer_modes=sorted(trainer_base.TRAINER_REGISTRY),
        estimators=sorted(getattr(key, "value", key) for key in core_algos.ADV_ESTIMATOR_REGISTRY),
        policy_losses=sorted(core_algos.POLICY_LOSS_REGISTRY),
        engines=sorted(
            f"{model_type}/{backend}"
            for model_type, backends in EngineRegistry._engines.items()
            for backend, devices in backends.items()
            if any(key == device or key[0] == device for key in devices)
        ),
        patches={status.name: status.state.value for status in patch_status()},
        needed=needed_patches(),
    )


def needed_patches() -> dict[str, dict[str, str]]:
    """Return the reasons of the patches that each kind of process must have, by kind and name."""
    from docagent_rl.patches import ALL_PATCHES  # imports torch

    return {
        kind.value: {patch.name: patch.reason for patch in ALL_PATCHES if kind in patch.processes}
        for kind in ProcessKind
    }


def prepare_environment() -> None:
    """Silence libraries and limit vLLM's cache in this process and its children.

    Call it before any import. Standard output is reserved for the report. Variables that the user
    has set are not changed.
    """
    defaults = {
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")  # verl warns of every training engine that is not installed


def registered_in_ray_worker() -> Registered:
    """Start a local Ray, query one worker, and stop Ray.

    Raises:
        ray.exceptions.RayError: the worker failed.
        RuntimeError: Ray cannot start, or is already running in this process.
    """
    import ray

    if ray.is_initialized():
        raise RuntimeError("Ray is already running in this process")
    try:
        # no GPUs, so that a worker starts in the same way with and without an accelerator
        ray.init(
            address="local", num_cpus=1, num_gpus=0, include_dashboard=False, log_to_driver=False
        )
    except Exception as error:  # Ray has no exception type for a failed start
        raise RuntimeError(f"Ray did not start: {error}") from error
    try:
        return ray.get(ray.remote(registered).remote())
    finally:
        ray.shutdown()


def registered_in_vllm_worker(model: Path) -> Registered:
    """Start a vLLM engine for `model` as verl does, with random weights; query its worker and core.

    Raises:
        RuntimeError: the engine does not start.
        ValueError: vLLM refuses the model.
    """
    from verl.plugin.platform import get_platform

    os.environ.update(get_platform().rollout_env_vars())
    from vllm import LLM

    probe = importlib.import_module(PROBE_EXECUTOR)
    engine = LLM(
        str(model),
        worker_extension_cls=PROBE_EXTENSION,
        distributed_executor_backend=probe.ProbeExecutor,
        load_format="dummy",
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=1,
        gpu_memory_utilization=0.3,
        skip_mm_profiling=True,
        disable_log_stats=True,
    )
    try:
        (found,) = engine.collective_rpc("docagent_registered")
        (of_core,) = engine.collective_rpc(probe.PATCHES)
    finally:
        engine.llm_engine.engine_core.shutdown()
    return Registered(**found | {"core_patches": of_core})
