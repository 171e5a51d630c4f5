"""The checks, the most informative first; their limits add up to the time on a GPU."""

from __future__ import annotations

from tools.gpu_check.check import Check, Need

TOTAL_S = 790.0
"""Seconds for all checks on a GPU."""

CHECKS = (
    Check("imports", "versions, plugin, patches, attention", 25),
    Check(
        "formulas", "KL estimators, log-probs and their gradients against formulas in float64", 25
    ),
    Check(
        "loss", "losses and gradients of rows that are masked, empty, rejected, against float64", 25
    ),
    Check(
        "models",
        "five families, packed bf16 and padded float32, against transformers row by row",
        130,
    ),
    Check(
        "recipe",
        "two steps of recipes: server and trainer token by token",
        300,
        frozenset({Need.VLLM}),
    ),
    Check("transfer", "weights from process to process, and a receiver that fails", 30),
    Check("resume", "saved, loaded, the same next step", 30),
    Check("attention", "varlen attention against plain attention, forward and backward", 20),
    Check("divergences", "k3 and exact KL against whole logits: memory and time", 25),
    Check("widths", "layers of a 7B model at the shortest and longest rows", 60),
    Check(
        "serving",
        "speed of a server that reads prompts and samples",
        120,
        frozenset({Need.VLLM}),
    ),
)


def find(name: str) -> Check:
    """Return the check with this name.

    Raises:
        KeyError: there is none.
    """
    return {check.name: check for check in CHECKS}[name]
