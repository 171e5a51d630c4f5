"""Rows of a pack that leak into one another in Qwen3.5's delta layers.

Upstream: verl 0.9.1, `verl/models/transformers/qwen3_5.py::_call_accepts_kwarg`. It asks whether
the function of the gated delta rule takes `cu_seqlens`, the ends of the rows of a pack, and holds a
`**kwargs` for a yes. transformers' torch function (`torch_chunk_gated_delta_rule`, which runs
wherever flash-linear-attention does not) has a `**kwargs` that it never reads: the states of one
row run on into the next, and nothing is said. In float32 the log-probs of a tiny model are up to
.72 nats off.

Here named parameters alone count. flash-linear-attention names `cu_seqlens`, `cu_seqlens_cpu` and
`cp_context` and gets them as before; for a function without them verl's own
`_packed_chunk_gated_delta_rule` goes through the rows of a pack one at a time, which is right and
slower. With Ulysses it ends with verl's NotImplementedError (`cp_context`), where it would have
computed something else before.

Unneeded once verl looks at named parameters, or transformers' function refuses what it does not
read.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from types import ModuleType

from docagent_rl.training.patching import TRAINING, Patch, replace


def names_parameter(function: Callable, name: str) -> bool:
    """Return whether a function can be called with the keyword `name` and declares it."""
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
    reason="rows of a pack leak into one another in Qwen3.5 where flash-linear-attention is not "
    "installed",
    target_module="verl.models.transformers.qwen3_5",
    apply=_apply,
    processes=TRAINING,
)
