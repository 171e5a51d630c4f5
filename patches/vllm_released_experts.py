"""vLLM loads a Qwen3-VL-MoE that transformers has saved.

Upstream: vLLM 0.24.0, `vllm/model_executor/models/qwen3_vl_moe.py`,
`Qwen3MoeLLMModel.load_weights`. Released checkpoints hold the experts of a layer as (expert, in,
out), which vLLM turns round. transformers 5 holds and saves them as (expert, out, in), so that a
trained model ends in "The size of tensor a must match", or, where a matrix is square, is served
with its experts turned.

Here such weights are brought to the form of released ones first; that of a square matrix is told by
the last one that is not, `down_proj` of its layer.

Unneeded once vLLM looks at the sizes.
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
        """Load weights of either form; return the names of those that were loaded."""
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
