"""vLLM's CPU engine supports mixtures of experts in float32.

Upstream: vLLM 0.24.0, `vllm/model_executor/layers/fused_moe/cpu_fused_moe.py`, `_CPU_MOE_ACT_FN`.
If the grouped kernel does not support the weights (float32, or sizes that are not divisible by 32),
experts are computed one by one with a function from this table. Its SiLU creates a layer at each
call, which needs the engine's configuration; that is only set while a model is being loaded, so the
engine does not start ("Current vLLM config is not set"). The comment above the table requires
functions without layers.

Here the entry is the layer's own static function.

No longer needed once the table contains that function.
"""

from __future__ import annotations

from types import ModuleType

import torch

from docagent_rl.patches.vllm_cpu_version import vllm_distribution
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import SERVING, Patch


def _apply(module: ModuleType) -> None:
    def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
        """Return silu(gate) * up, (tokens, d), from the concatenation of both, (tokens, 2 d)."""
        return module.SiluAndMul.forward_native(gate_up)

    silu = module.MoEActivation.SILU
    vars(silu_and_mul)["__wrapped__"] = module._CPU_MOE_ACT_FN[silu]
    module._CPU_MOE_ACT_FN[silu] = silu_and_mul


PATCH = Patch(
    name="vllm_cpu_experts",
    package=vllm_distribution(),
    versions="==0.24.0",
    reference="vllm/model_executor/layers/fused_moe/cpu_fused_moe.py::_CPU_MOE_ACT_FN",
    reason="vLLM's CPU engine does not start with a mixture of experts in float32",
    target_module="vllm.model_executor.layers.fused_moe.cpu_fused_moe",
    apply=_apply,
    processes=SERVING,
    needed=is_cpu_platform,
)
