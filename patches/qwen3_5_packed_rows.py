"""The rows of a pack do not leak into each other in Qwen3.5's delta layers.

Upstream: verl 0.9.1, `verl/models/transformers/qwen3_5.py::_call_accepts_kwarg`. It checks whether
the function for the gated delta rule accepts `cu_seqlens`, the ends of the rows in a pack, and
takes `**kwargs` for a yes. transformers' torch function (`torch_chunk_gated_delta_rule`, which is
used without flash-linear-attention) has a `**kwargs` that it never reads: the state of one row
silently continues into the next. In float32 the log-probs of a tiny model are wrong by up to .72
nats.

Here only named parameters count. flash-linear-attention declares `cu_seqlens`, `cu_seqlens_cpu` and
`cp_context` and gets them as before; for a function without them, verl's own
`_packed_chunk_gated_delta_rule` processes the rows of a pack one by one, which is correct but
slower. With Ulysses it now raises verl's NotImplementedError (`cp_context`) instead of computing
something wrong.

No longer needed once verl checks for named parameters, or transformers' function refuses unknown
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from types import ModuleType

from docagent_rl.training.patching import TRAINING, Patch, replace


def names_parameter(function: Callable, name: str) -> bool:
    """Return whether a function declares a parameter `name` that can be passed by keyword."""
    parameter = signature(function).parameters.get(name)
    return parameter is not None and parameter.kind in (
        Parameter.POSITIONAL_OR_KEYWORD,
        Parameter.KEYWORD_ONLY,
    )


def _apply(module: ModuleType) -> None:
    def _call_accepts_kwarg(fn: Callable, name: str) -> bool:
        """Return whether `fn` declares the keyword `name`."""
        return names_parameter(fn, name)

    replace(module, "_call_accepts_kwarg", _call_accepts_kwarg)


PATCH = Patch(
    name="qwen3_5_packed_rows",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/qwen3_5.py::_call_accepts_kwarg",
    reason="the rows of a pack leak into each other in Qwen3.5 without flash-linear-attention",
    target_module="verl.models.transformers.qwen3_5",
    apply=_apply,
    processes=TRAINING,
)
