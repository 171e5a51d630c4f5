"""vLLM can load a Gemma 4 that transformers has saved.

Upstream: vLLM 0.24.0, `vllm/model_executor/models/gemma4.py`, `Gemma4Attention`. The last layers of
Gemma 4 reuse the keys of earlier ones. vLLM still creates a key norm in them, which it never calls,
and expects its weight: released checkpoints contain it, but transformers has no such parameter and
does not save it. So a trained Gemma 4 fails with "Following weights were not initialized from
checkpoint".

Here the key norms of layers without keys count as loaded.

No longer needed once vLLM does not create them.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from docagent_rl.patches.vllm_cpu_version import vllm_distribution
from docagent_rl.training.patching import SERVING, Patch, replace


def _apply(module: ModuleType) -> None:
    load = module.Gemma4Model.load_weights

    def load_weights(self: Any, weights: Iterable[tuple[str, Any]]) -> set[str]:
        """Load weights; return the names of those that need not be loaded any more."""
        layers = (
            (name, part)
            for name, part in self.named_modules()
            if hasattr(part, "is_kv_shared_layer")
        )
        unused = {f"{name}.k_norm.weight" for name, part in layers if part.is_kv_shared_layer}
        return load(self, weights) | unused

    replace(module.Gemma4Model, "load_weights", load_weights)


PATCH = Patch(
    name="vllm_gemma4_shared_keys",
    package=vllm_distribution(),
    versions="==0.24.0",
    reference="vllm/model_executor/models/gemma4.py::Gemma4Attention",
    reason="a Gemma 4 that transformers has saved cannot be served",
    target_module="vllm.model_executor.models.gemma4",
    apply=_apply,
    processes=SERVING,
)
