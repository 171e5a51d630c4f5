"""Old weights that verl keeps in host memory are copies, even if the weights are already there.

Upstream: verl 0.9.1, `verl/utils/fsdp_utils.py`, `fsdp2_sharded_save_to_cpu`. The trainer mode
`separate_async` keeps the weights for the old log-probs
(`PPOTrainerSeparateAsync._compute_old_log_prob`) with `tensor.detach().cpu()`. For a tensor in host
memory this is the tensor itself: on a CPU, and on GPUs with `param_offload=true`, every update
changes the kept weights, and from the second update of a step on, the old log-probs are those of
the weights that are being trained. The corresponding function for FSDP1 does copy.

No longer needed once verl copies these weights.
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
    reason="the weights kept for old log-probs would change with every update",
    target_module="verl.utils.fsdp_utils",
    apply=_apply,
    processes=TRAINING,
)
