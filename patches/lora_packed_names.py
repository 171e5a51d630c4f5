"""The base of a LoRA policy can be loaded into models whose packed layers are in a submodel.

Upstream: verl 0.9.1, `verl/utils/vllm/utils.py`, `resolve_weight_name`. It finds the layers that
vLLM has packed (q, k and v to qkv) with the model's own `packed_modules_mapping`. InternVL's class
in vLLM has none: vLLM uses that of its language model. So verl strips `base_layer` from the names
of wrapped layers, and the first update fails with "KeyError: 'layers.0.self_attn.qkv_proj.weight'".

Here a model without a mapping gets the one that vLLM infers for it.

No longer needed once verl uses vLLM's `get_packed_modules_mapping`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import SERVING, Patch, replace


def _apply(module: ModuleType) -> None:
    resolve = module.resolve_weight_name

    def resolve_weight_name(model: Any, name: str, model_weight_names: set[str]) -> str:
        """Return the name of a weight as upstream does, but with the language model's packed
        layers.
        """
        if not getattr(model, "packed_modules_mapping", None):
            from vllm.model_executor.utils import get_packed_modules_mapping

            model.packed_modules_mapping = get_packed_modules_mapping(model)
        return resolve(model, name, model_weight_names)

    replace(module, "resolve_weight_name", resolve_weight_name)


PATCH = Patch(
    name="lora_packed_names",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/vllm/utils.py::resolve_weight_name",
    reason="adapters cannot be served for models such as InternVL, whose class in vLLM has no "
    "packed layers",
    target_module="verl.utils.vllm.utils",
    apply=_apply,
    processes=SERVING,
)
