"""Requests with their own seed may have prompts longer than a step of vLLM's CPU engine.

Upstream: vLLM 0.24.0, `vllm/v1/worker/gpu_model_runner.py`, `GPUModelRunner._bookkeeping_sync`.
While a prompt is processed in chunks, a token is sampled after each chunk and discarded, and the
request's generator is reset by its offset. CUDA generators have an offset, CPU generators do not:
the first such request ends the engine ("CPU Generator does not use offset"). vLLM's pull request
10097 states that this relies on CUDA.

Here the generators of such requests are restored to the state before the token was sampled.

No longer needed once vLLM restores generators by their state, or does not sample there.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.patches.vllm_cpu_version import vllm_distribution
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import SERVING, Patch, replace


def _apply(module: ModuleType) -> None:
    runner = module.GPUModelRunner
    sample = runner._sample
    keep_books = runner._bookkeeping_sync

    def _sample(self: Any, *args: Any, **options: Any) -> Any:
        generators = self.input_batch.generators
        thrown_away = self.discard_request_mask.np
        before = {row: each.get_state() for row, each in generators.items() if thrown_away[row]}
        output = sample(self, *args, **options)
        for row, state in before.items():
            generators[row].set_state(state)
        return output

    def _bookkeeping_sync(self: Any, *args: Any, **options: Any) -> Any:
        batch = self.input_batch
        generators = batch.generators
        batch.generators = {}
        try:
            return keep_books(self, *args, **options)
        finally:
            batch.generators = generators

    replace(runner, "_sample", _sample)
    replace(runner, "_bookkeeping_sync", _bookkeeping_sync)


PATCH = Patch(
    name="vllm_cpu_seeded_chunks",
    package=vllm_distribution(),
    versions="==0.24.0",
    reference="vllm/v1/worker/gpu_model_runner.py::GPUModelRunner._bookkeeping_sync; vLLM pull "
    "request 10097",
    reason="a seeded request whose prompt is processed in chunks ends vLLM's CPU engine",
    target_module="vllm.v1.worker.gpu_model_runner",
    apply=_apply,
    processes=SERVING,
    needed=is_cpu_platform,
)
