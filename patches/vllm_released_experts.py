"""vLLM can load a Qwen3-VL-MoE that transformers has saved.

Upstream: vLLM 0.24.0, `vllm/model_executor/models/qwen3_vl_moe.py`,
`Qwen3MoeLLMModel.load_weights`. Released checkpoints store the experts of a layer as (expert, in,
out), which vLLM transposes. transformers 5 stores and saves them as (expert, out, in), so that a
trained model fails with "The size of tensor a must match" or, if a matrix is square, is served with
transposed experts.

Here such weights are first transposed to the form of released ones. For a square matrix the form is
that of the last matrix that is not square, the `down_proj` of its layer.

No longer needed once vLLM checks the sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from docagent_rl.patches.vllm_cpu_version import vllm_distribution
from docagent_rl.training.patching import SERVING, Patch, replace


def _apply(module: ModuleType) -> None:
    load = module.Qwen3MoeLLMModel.load_weights

    def load_weights(self: Any, weights: Iterable[tuple[str, Any]]) -> set[str]:
        """Load weights in either form; return the names of the loaded weights."""
        return load(
            self, _as_released(weights, self.config.hidden_size, self.config.moe_intermediate_size)
        )

    replace(module.Qwen3MoeLLMModel, "load_weights", load_weights)


def _as_released(
    weights: Iterable[tuple[str, Any]], hidden: int, inner: int
) -> Iterator[tuple[str, Any]]:
    saved = {"down_proj": (hidden, inner), "gate_up_proj": (2 * inner, hidden)}
    turned = False
    for name, weight in weights:
        sizes = saved.get(name.rpartition(".experts.")[2])
        if sizes is not None and weight.dim() == 3:
            if sizes[0] != sizes[1]:
                turned = tuple(weight.shape[1:]) == sizes
            yield name, weight.transpose(1, 2) if turned else weight
        else:
            yield name, weight


PATCH = Patch(
    name="vllm_released_experts",
    package=vllm_distribution(),
    versions="==0.24.0",
    reference="vllm/model_executor/models/qwen3_vl_moe.py::Qwen3MoeLLMModel.load_weights",
    reason="a Qwen3-VL-MoE that transformers has saved cannot be served",
    target_module="vllm.model_executor.models.qwen3_vl_moe",
    apply=_apply,
    processes=SERVING,
)
