"""Weights that verl keeps in host memory while it updates them, as copies also where they lie there
already.

Upstream: verl 0.9.1, `verl/utils/fsdp_utils.py`, `fsdp2_sharded_save_to_cpu`. The trainer mode
`separate_async` keeps the weights whose log-probs updates are compared with
(`PPOTrainerSeparateAsync._compute_old_log_prob`) by `tensor.detach().cpu()`. Of a tensor in host
memory that is the tensor itself: on a CPU, and on GPUs under `param_offload=true`, every update
changes what was kept, and from the second update of a step on the old log-probs are those of the
weights that are being trained. The same function for FSDP1 copies.

Unneeded once verl copies what it keeps.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    save = module.fsdp2_sharded_save_to_cpu

    def save_to_cpu(model: Any) -> tuple[dict[str, Any], Any]:
        """Save as verl does; the result shares no memory with the model."""
        kept, layout = save(model)
        for name, parameter in model.named_parameters():
            if parameter.device.type == "cpu":
                tensor, own = kept[name]
                kept[name] = (tensor.clone(), own)
        return kept, layout

    replace(module, "fsdp2_sharded_save_to_cpu", save_to_cpu)


PATCH = Patch(
    name="kept_weights_are_copies",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/fsdp_utils.py::fsdp2_sharded_save_to_cpu",
    reason="weights that are kept while others are trained would be those that are trained",
    target_module="verl.utils.fsdp_utils",
    apply=_apply,
    processes=TRAINING,
)
