"""The checks, in the order they run."""

from __future__ import annotations

from tools.gpu_check.check import Check, Need

CHECKS = (
    Check("imports", "versions, plugin, patches, attention", 120),
    Check("attention", "varlen attention against plain attention, forward and backward", 90),
    Check("models", "actor, reference, critic in bf16 against padded float32", 180),
    Check("divergences", "k3 and exact KL against whole logits: memory and time", 120),
    Check("transfer", "weights from process to process, and a receiver that fails", 120),
    Check("resume", "saved, loaded, the same next step", 120),
    Check("widths", "layers of a 7B model at the longest rows", 300),
    Check("recipe", "two steps of a recipe", 420, frozenset({Need.VLLM})),
)


def find(name: str) -> Check:
    """The check of this name.

    Raises:
        KeyError: there is none.
    """
    return {check.name: check for check in CHECKS}[name]
