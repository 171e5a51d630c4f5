"""A critic of Qwen3.5 is told where the rows of a pack end.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._build_model_optimizer`. A model is given `cu_seqlens`, the ends of the rows of a pack,
if its forward pass names that parameter. A critic has another forward pass around the same layers
(transformers' `Qwen3_5ForTokenClassification`, or trl's value head), which hands on what it does
not name: its delta layers would take the ends and never get them, and the states of one row run on
into the next. Values of a tiny model are up to .17 off, with a deviation of .19.

Here all models of these types get the ends.

Unneeded once verl asks the layers, or gives the ends to every model of these types.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

MODEL_TYPES = ("qwen3_5", "qwen3_5_moe")
"""Types whose layers verl gives `cu_seqlens` to (`verl/models/transformers/monkey_patch.py`)."""


def _apply(module: ModuleType) -> None:
    original = module.FSDPEngine._build_model_optimizer

    def _build_model_optimizer(self: Any) -> None:
        """Build as upstream does, and say whether the model is given the ends of rows."""
        original(self)
        if self.model_config.hf_config.model_type in MODEL_TYPES:
            self.pass_packed_cu_seqlens = True

    replace(module.FSDPEngine, "_build_model_optimizer", _build_model_optimizer)


PATCH = Patch(
    name="value_model_packed_rows",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/engine/fsdp/transformer_impl.py::FSDPEngine._build_model_optimizer",
    reason="rows of a pack leak into one another in a critic of Qwen3.5",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
)
