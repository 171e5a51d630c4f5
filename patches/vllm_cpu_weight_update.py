"""Update the policy's weights in vLLM's CPU model with vLLM's own reload.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/utils.py`,
`vLLMColocateWorkerExtension.update_weights_from_ipc`. It calls `model.load_weights` for each bucket
on the running model. vLLM's CPU layers repack their weights after loading and drop the parameters'
`weight_loader`, so that the second load fails.

Here the buckets are collected (and copied, as on a CPU they are views of the sender's shared
memory) and passed to `model_runner.reload_weights`, which restores the layers, loads, and repacks
them. This needs one additional copy of the weights during the update.

LoRA adapters are passed to vLLM as in verl; the weights below them, which verl sends once before,
are renamed to the names in vLLM's wrapped layers.

A head that shares the embedding's weight (`tie_word_embeddings`) has no weight of its own to load,
so vLLM's reload does not change its repacked copy: the engine would continue to sample with the
head that it started with. It is repacked here.

No longer needed once verl reloads through `model_runner.reload_weights`, or vLLM's CPU layers stay
loadable.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

import torch

from docagent_rl.base.errors import UserError
from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import SERVING, Patch, replace


def update_weights_from_ipc(
    self: Any, peft_config: dict | None = None, base_sync_done: bool = False, use_shm: bool = False
) -> None:
    """Receive all buckets and reload the model from them; buffers are copied in place.

    With a `peft_config` they are the weights of an adapter or, without `base_sync_done`, those of
    the base model.

    Raises:
        UserError: the model is quantised, or there is a multi-token-prediction drafter. It is
            raised after the transfer, for which the trainer waits, so that the trainer sees it.
    """
    from verl.workers.rollout.vllm_rollout.weight_update_utils import (
        apply_buffer_updates,
        split_buffer_updates,
    )

    weights = _receive(self, use_shm)
    model = self.model_runner.model
    _validate_plain_weights(self)
    if peft_config and base_sync_done:
        _replace_adapter(self, weights, peft_config)
        return
    parameters, buffers, named_buffers = split_buffer_updates(model, weights)
    if peft_config:
        parameters = _wrapped_names(model, parameters)
    self.model_runner.reload_weights(weights_iterator=iter(parameters))
    repack_tied(model)
    apply_buffer_updates(model, buffers, named_buffers=named_buffers)


def _replace_adapter(
    worker: Any, weights: list[tuple[str, torch.Tensor]], peft_config: dict
) -> None:
    from verl.workers.rollout.vllm_rollout.utils import VLLM_LORA_INT_ID

    worker.remove_lora(VLLM_LORA_INT_ID)
    worker._update_weights(weights, peft_config=peft_config, base_sync_done=True)


def _wrapped_names(
    model: torch.nn.Module, weights: list[tuple[str, torch.Tensor]]
) -> list[tuple[str, torch.Tensor]]:
    """Return weights with the names that they have in the layers that vLLM wraps for LoRA."""
    from verl.utils.vllm import resolve_weight_name

    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    names.update(name for name, _ in model.named_buffers())
    return [(resolve_weight_name(model, name, names), tensor) for name, tensor in weights]


def repack_tied(model: torch.nn.Module) -> None:
    """Repack the layers that share the weight of an earlier layer, from its present value."""
    seen: set[int] = set()
    for layer in model.modules():
        weight = layer._parameters.get("weight")
        if weight is None:
            continue
        if id(weight) in seen and hasattr(layer, "cpu_linear"):
            cast("Any", layer).quant_method.process_weights_after_loading(layer)
        seen.add(id(weight))


def _receive(worker: Any, use_shm: bool) -> list[tuple[str, torch.Tensor]]:
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

    collected: list[tuple[str, torch.Tensor]] = []

    def keep(bucket: list[tuple[str, torch.Tensor]], is_last: bool) -> None:
        collected.extend((name, tensor.clone()) for name, tensor in bucket)

    receiver = BucketedWeightReceiver(
        zmq_handle=worker._get_zmq_handle(), device=torch.device("cpu"), use_shm=use_shm
    )
    receiver.receive_weights(on_bucket_received=keep)
    return collected


def _validate_plain_weights(worker: Any) -> None:
    from verl.utils.vllm.vllm_quant_utils import is_quantized_model

    if is_quantized_model(worker.model_runner.vllm_config):
        raise UserError(
            "quantised rollouts cannot be updated on a CPU: set "
            "actor_rollout_ref.rollout.quantization=null"
        )
    if worker._use_mtp_drafter_weight_sync():
        raise UserError(
            "MTP drafters cannot be updated on a CPU: set "
            "actor_rollout_ref.rollout.mtp.enable=False"
        )


def _apply(module: ModuleType) -> None:
    replace(module.vLLMColocateWorkerExtension, "update_weights_from_ipc", update_weights_from_ipc)


PATCH = Patch(
    name="vllm_cpu_weight_update",
    package="verl",
    versions="==0.9.1",
    reference=(
        "verl/workers/rollout/vllm_rollout/utils.py::"
        "vLLMColocateWorkerExtension.update_weights_from_ipc; "
        "vllm/v1/worker/gpu_model_runner.py::GPUModelRunner.reload_weights"
    ),
    reason="vLLM's CPU layers repack their weights and cannot load a second time",
    target_module="verl.workers.rollout.vllm_rollout.utils",
    apply=_apply,
    processes=SERVING,
    needed=is_cpu_platform,
)
