"""A reply that was assembled from several replies keeps all of the server's extra fields.

Upstream: verl 0.9.1, `verl/workers/rollout/llm_server.py`, the client of the asynchronous trainer
modes. It repeats a request that a weight update aborts, and builds a new reply from the tokens and
from a fixed list of fields in `extra_fields`. Other fields are lost, even if nothing was aborted.

Here numbers in the fields of all replies are summed, and of other values the last one is kept.

No longer needed once verl copies all of `extra_fields`.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

_replies: ContextVar[list[dict[str, Any]] | None] = ContextVar("docagent_replies", default=None)
"""`extra_fields` of the replies from which the current reply is assembled."""


def _apply(module: ModuleType) -> None:
    resuming = module.FullyAsyncLLMServerClient
    (once,) = resuming.__bases__
    ask = once.generate
    ask_until_done = resuming.generate

    @wraps(ask)
    async def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = await ask(self, *args, **kwargs)
        known = _replies.get()
        if known is not None:
            known.append(dict(output.extra_fields))
        return output

    @wraps(ask_until_done)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        known: list[dict[str, Any]] = []
        token = _replies.set(known)
        try:
            output = await ask_until_done(self, *args, **kwargs)
        finally:
            _replies.reset(token)
        for name, value in _merged(known).items():
            output.extra_fields.setdefault(name, value)
        return output

    replace(once, "generate", noting)
    replace(resuming, "generate", generate)


def _merged(replies: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for reply in replies:
        for name, value in reply.items():
            counts = isinstance(value, (int, float)) and isinstance(found.get(name), (int, float))
            found[name] = found[name] + value if counts else value
    return found


PATCH = Patch(
    name="resumed_reply_fields",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/rollout/llm_server.py::FullyAsyncLLMServerClient.generate",
    reason="images that rollout servers fetch would be counted as 0 in the asynchronous trainer "
    "modes",
    target_module="verl.workers.rollout.llm_server",
    apply=_apply,
    processes=TRAINING,
)
