"""Imports what the processes of a training run import, but Ray: its library reads settings when loaded."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys

from docagent_rl.patches.vllm_cpu_version import AliasFinder

MODULES = (
    "numpy",
    "pandas",
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "tensordict",
    "sklearn.metrics",
    "datasets",
    "hydra",
    "transformers",
    "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl",
    "transformers.models.qwen2_5_vl.processing_qwen2_5_vl",
    "peft",
    "trl.models.modeling_value_head",
    "vllm.config",
    "vllm.model_executor.models.qwen2_5_vl",
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.core.sched.scheduler",
    "vllm.multimodal.processing",
    "vllm.entrypoints.openai.api_server",
)

# vLLM finds its platform by the version of its own distribution
sys.meta_path.append(AliasFinder())
without_ray = "ray" not in sys.modules
for name in MODULES:
    importlib.import_module(name)
    if without_ray and "ray" in sys.modules:
        raise ImportError(f"{name} has imported ray: leave it out of {__name__}.MODULES")
