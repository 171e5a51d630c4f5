"""Import everything that the processes of a training run import, except Ray.

Ray reads settings when it is imported.
"""

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
    # the slowest imports of verl and of the processors
    "vllm.model_executor.models.qwen3_next",
    "vllm.model_executor.models.qwen3_5",
    "vllm.model_executor.models.qwen3_vl_moe",
    "transformers.tokenization_mistral_common",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
    "transformers.models.qwen3_vl.processing_qwen3_vl",
    "opentelemetry.semconv.trace",
    "docagent_rl.config",
    "docagent_rl.rollout.resources",
    "docagent_rl.rollout.rollout",
    "docagent_rl.retrieval.opening",
    "docagent_rl.rewards.rule_judge",
)

# vLLM recognises its platform by the version of its own distribution. The alias is removed
# afterwards, since each process must find out for itself that the distribution is missing.
alias = AliasFinder()
sys.meta_path.append(alias)
without_ray = "ray" not in sys.modules
for name in MODULES:
    importlib.import_module(name)
    if without_ray and "ray" in sys.modules:
        raise ImportError(f"{name} has imported ray: leave it out of {__name__}.MODULES")

sys.meta_path.remove(alias)

# To avoid initialising CUDA, vLLM inspects a class in another process, whose imports take nine
# seconds. There is no CUDA here, so the class is inspected in this process.
sys.modules["vllm.model_executor.models.registry"]._run_in_subprocess = lambda look: look()
