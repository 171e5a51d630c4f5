"""A Qwen3.5 critic gets the ends of the rows in a pack.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._build_model_optimizer`. A model gets `cu_seqlens`, the ends of the rows in a pack, if
its forward pass declares that parameter. A critic has a different forward pass around the same
layers (transformers' `Qwen3_5ForTokenClassification`, or trl's value head), which passes on
undeclared arguments: its delta layers would accept the ends but never get them, and the state of
one row continues into the next. Values of a tiny model are wrong by up to .17, with a standard
deviation of .19.

Here all models of these types get the ends.

No longer needed once verl checks the layers, or passes the ends to every model of these types.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

MODEL_TYPES = ("qwen3_5", "qwen3_5_moe")
"""Model types to whose layers verl passes `cu_seqlens`
(`verl/models/transformers/monkey_patch.py`).
"""


def _apply(module: ModuleType) -> None:
    original = module.FSDPEngine._build_model_optimizer

    def _build_model_optimizer(self: Any) -> None:
        """Build as upstream does, then enable passing the ends of rows to the model."""
        original(self)
        if self.model_config.hf_config.model_type in MODEL_TYPES:
            self.pass_packed_cu_seqlens = True

    replace(module.FSDPEngine, "_build_model_optimizer", _build_model_optimizer)


PATCH = Patch(
    name="value_model_packed_rows",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/engine/fsdp/transformer_impl.py::FSDPEngine._build_model_optimizer",
    reason="the rows of a pack leak into each other in a Qwen3.5 critic",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
)
