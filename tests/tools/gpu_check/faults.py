"""Program: run checks at their tiny sizes, unchanged and with a fault in what they check; its
argument is a folder.

Prints one JSON object: by check and fault, what the check said, or null where it passed. One
reference serves all faults, and the fault of packed rows comes last: verl changes the attention of
classes for good.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from tools.gpu_check.check import Machine
from tools.gpu_check.runner import environment

MACHINE = Machine(None, 0.0, vllm=False)
FAMILY, OF_OTHERS = "qwen2_5_vl", {"delta_layers_do_not_hear_of_rows": "qwen3_5"}
"""The family that has a fault of `models`."""


def upstream_of_another_version() -> Any:
    return _installed_anew(versions="==0")


def module_that_moved() -> Any:
    return _installed_anew(target_module="verl.moved")


@contextmanager
def _installed_anew(**changes: str) -> Iterator[None]:
    from docagent_rl.patches.byte_patches import PATCH
    from docagent_rl.training import patching

    with patch.dict(patching._statuses):
        del patching._statuses[PATCH.name]
        patching.install([replace(PATCH, **changes)])
        yield


def kl_of_another_sign() -> Any:
    from verl.workers.utils import losses

    true = losses.kl_penalty
    return patch.object(losses, "kl_penalty", lambda **given: -true(**given))


def _aggregation(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Change the arguments of verl's aggregation of the surrogate and of the critic's loss."""
    from verl.trainer.ppo import core_algos

    true = core_algos.agg_loss
    return patch.object(core_algos, "agg_loss", lambda **given: true(**given | change(given)))


def mean_over_tokens_alone() -> Any:
    return _aggregation(lambda given: {"loss_agg_mode": "token-mean"})


def rejected_tokens_are_trained() -> Any:
    return _aggregation(lambda given: {"loss_mask": torch.ones_like(given["loss_mask"])})


def rows_that_are_not_trained_count() -> Any:
    return patch("docagent_rl.training.workers.trained_tokens.trained_rows", len)


def values_are_not_clipped() -> Any:
    return patch("verl.utils.torch_functional.clip_by_value", lambda values, low, high: values)


def no_attention_over_packed_rows() -> Any:
    return patch("verl.models.transformers.qwen2_vl.flash_attn_varlen_func", None)


def k3_of_another_sign() -> Any:
    return patch("docagent_rl.losses.estimators._unbounded_k3", lambda d: torch.exp(d) + d - 1)


def backward_of_another_sign() -> Any:
    from docagent_rl.training.attention import _LogProbs

    true = _LogProbs.backward
    return patch.object(
        _LogProbs, "backward", staticmethod(lambda ctx, *g: (-true(ctx, *g)[0], None, None))
    )


def exact_backward_of_another_sign() -> Any:
    from docagent_rl.losses.exact_kl import _ExactKl

    true = _ExactKl.backward
    return patch.object(_ExactKl, "backward", staticmethod(lambda *a: _negated(true(*a))))


def fused_backward_of_another_sign() -> Any:
    from verl.utils.experimental.torch_functional import FusedLinearForPPOFunction as Fused

    true = Fused.backward
    return patch.object(Fused, "backward", staticmethod(lambda *a: _negated(true(*a))))


def _negated(gradients: tuple) -> tuple:
    return tuple(-each if isinstance(each, torch.Tensor) else each for each in gradients)


def byte_patches_stay_bytes() -> Any:
    from docagent_rl.training.vision import tower

    true, none = tower.unpack_each, (0.0,) * 3
    return patch.object(
        tower,
        "unpack_each",
        lambda images, layout, **where: true(
            images, replace(layout, mean=none, std=(1.0,) * 3), **where
        ),
    )


def positions_of_text_alone() -> Any:
    def positions(ids: torch.Tensor, features: Any, processor: Any) -> torch.Tensor:
        return torch.arange(len(ids)).repeat(4, 1)

    return patch("tools.gpu_check.rows.position_ids", positions)


def images_of_a_row_exchanged() -> Any:
    """Exchange the first and the last image of a row, if they have the same size."""
    from tools.gpu_check import rows

    true = rows.join_patches

    def exchanged(images: Sequence[Any]) -> dict[str, torch.Tensor]:
        first, *between, last = images if len(images) > 1 else (*images, *images)
        alike = between and first.num_tokens == last.num_tokens
        return true([last, *between, first] if alike else images)

    return patch.object(rows, "join_patches", exchanged)


def images_found_by_their_size() -> Any:
    """Replace each image by the first one of its size, also in other rows."""
    from tools.gpu_check import rows

    true, kept = rows.join_patches, {}

    def found(images: Sequence[Any]) -> dict[str, torch.Tensor]:
        return true([kept.setdefault(image.num_tokens, image) for image in images])

    return patch.object(rows, "join_patches", found)


def temperature_of_one() -> Any:
    return patch("tools.gpu_check.rows.TEMPERATURE", 1.0)


def _attention(change: Callable[..., tuple]) -> Any:
    """Let `change` replace the queries, keys, values, both lists of ends, scale and window of
    attention.
    """
    from docagent_rl.training import attention

    true = attention.plain_varlen_attn
    return patch.object(attention, "plain_varlen_attn", lambda *given: true(*change(*given)))


def rows_of_a_pack_see_each_other() -> Any:
    return _attention(
        lambda q, k, v, cu_q, cu_k, *rest: (q, k, v, cu_q[[0, -1]], cu_k[[0, -1]], *rest)
    )


def delta_layers_do_not_hear_of_rows() -> Any:
    from verl.models.transformers import qwen3_5

    return patch.object(qwen3_5, "_call_accepts_kwarg", qwen3_5._call_accepts_kwarg.__wrapped__)


def later_tokens_are_seen() -> Any:
    return _attention(lambda *given: given[:-1])


def gradient_of_values_is_doubled() -> Any:
    return _attention(lambda q, k, v, *rest: (q, k, 2 * v - v.detach(), *rest))


def transfer_loses_a_tensor() -> Any:
    from tools.gpu_check.without_vllm import open_rollout_package

    open_rollout_package()
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import (
        BucketedWeightSender as Sender,
    )

    true = Sender.async_send_weights
    return patch.object(
        Sender, "async_send_weights", lambda self, weights: true(self, _but_the_first(weights))
    )


def _but_the_first(weights: Iterator) -> Iterator:
    next(weights)
    yield from weights


def optimizer_is_not_restored() -> Any:
    from verl.utils.checkpoint.checkpoint_manager import BaseCheckpointManager

    return patch.object(BaseCheckpointManager, "should_load_optimizer", False)


def memory_is_full() -> Any:
    return patch(
        "tools.gpu_check.parts.widths.train_without_step", side_effect=torch.cuda.OutOfMemoryError
    )


FAULTS: dict[str, dict[Callable[[], Any], str]] = {
    "imports": {
        upstream_of_another_version: "version mismatch",
        module_that_moved: "waiting for import",
        no_attention_over_packed_rows: "no attention over packed rows",
    },
    "formulas": {
        k3_of_another_sign: "k3, ours differs by 1.2",
        backward_of_another_sign: "logits, gradient of states differs by 2",
        fused_backward_of_another_sign: "fused, gradient of states differs by 2",
    },
    "loss": {
        kl_of_another_sign: "policy, token-mean, all trained: loss differs",
        mean_over_tokens_alone: "policy, token-sum, all trained: loss differs",
        rejected_tokens_are_trained: "policy, seq-mean-token-mean, all trained: loss differs",
        rows_that_are_not_trained_count: "policy, seq-mean-token-sum, masked, empty, rejected: "
        "loss differs",
        values_are_not_clipped: "critic, token-mean, all trained: loss differs",
        k3_of_another_sign: "policy, token-mean, all trained: loss differs",
    },
    "attention": {
        rows_of_a_pack_see_each_other: "language, 128: output differs from plain attention by 1",
        later_tokens_are_seen: "language, 128: output differs from plain attention by 1",
        gradient_of_values_is_doubled: "language, 128: dv differs",
    },
    "divergences": {
        k3_of_another_sign: "k3, fused: value",
        fused_backward_of_another_sign: "k3, fused: gradient of states differs from whole",
        exact_backward_of_another_sign: "exact, tiles: gradient of states differs from whole",
    },
    "models": {
        byte_patches_stay_bytes: "padded fp32: log-probs differ by",
        positions_of_text_alone: "padded fp32: log-probs differ by",
        images_of_a_row_exchanged: "padded fp32: log-probs differ by",
        images_found_by_their_size: "padded fp32: log-probs differ by",
        temperature_of_one: "padded fp32: log-probs differ by",
        delta_layers_do_not_hear_of_rows: "qwen3_5: row 2 of a pack sees the first one",
        rows_of_a_pack_see_each_other: "qwen2_5_vl: row 2 of a pack sees the first one",
    },
    "resume": {optimizer_is_not_restored: "0 tensors after loading"},
    "transfer": {transfer_loses_a_tensor: "arrived ['second', 'third'], sent ['first',"},
    "widths": {memory_is_full: "1 layers do not fit at 120 tokens"},
}
"""Faults by check, in the order in which they run, with words of the failure that name them."""
BEFORE = ("imports", "formulas", "loss", "attention", "divergences", "transfer")
AFTER = ("resume", "widths")
"""Checks that run without a fault, before and after them; `models` needs a process without packed
rows.
"""


@contextmanager
def one_reference() -> Iterator[None]:
    """Compute transformers' numbers of a family only once, since a fault changes neither the model
    nor the rows.
    """
    from tools.gpu_check import layouts

    kept: dict[str, Any] = {}
    true = layouts.reference

    def once(path: Path, *arguments: Any) -> Any:
        if path.name not in kept:
            kept[path.name] = true(path, *arguments)
        return kept[path.name]

    with patch.object(layouts, "reference", once):
        yield


def verdict(check: str, folder: Path, fault: Callable[[], Any] = nullcontext) -> str | None:
    """Return the text of a check's failure with a fault, or None if it passes."""
    from importlib import import_module

    module = import_module(f"tools.gpu_check.parts.{check}")
    folder.mkdir(parents=True)
    name = getattr(fault, "__name__", "")
    families = {"families": (OF_OTHERS.get(name, FAMILY),)} if check == "models" else {}
    try:
        with fault():
            module.run(MACHINE, folder, **families)
    except Exception as error:  # a fault may break anything; the test says what it has to be
        return f"{type(error).__name__}: {error}"
    return None


def main(folder: Path) -> None:
    """Run all checks and faults."""
    os.environ.update(environment(MACHINE, folder))
    import verl  # noqa: F401

    said = {check: verdict(check, folder / check) for check in BEFORE}
    with one_reference():
        said |= {
            f"{check}: {fault.__name__}": verdict(
                check, folder / f"{check}-{fault.__name__}", fault
            )
            for check, faults in FAULTS.items()
            for fault in faults
        }
    said |= {check: verdict(check, folder / check) for check in AFTER}
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
