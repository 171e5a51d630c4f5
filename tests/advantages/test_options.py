"""Every option of every estimator reaches its numbers."""

from __future__ import annotations

import math
import re

import pytest
import torch

from docagent_rl.advantages import registered_estimators
from docagent_rl.advantages.inputs import Discounts
from tests.advantages.batches import batch

# a group of three trajectories, the first of two rows, and a group of one
BATCH = {
    "turns": [[0, -1, 1], [2, 2, -1], [0, 1, -1], [0, -1, 1], [0, 0, 1]],
    "rewards": [[0.5, 0, 1.0], [0.2, 0.1, 0], [0.3, 0.4, 0], [1.0, 0, -0.6], [0.7, 0.1, 0.2]],
    "values": [[0.1, 0, 0.4], [0.2, 0.5, 0], [0.3, 0.1, 0], [0.9, 0, 0.2], [0.5, 0.4, 0.3]],
    "trajectory": [0, 0, 1, 2, 3],
    "row": [0, 1, 0, 0, 0],
    "group": [0, 0, 0, 0, 1],
}
VECTORS = torch.tensor([[1.0, 0.2], [0.6, -0.9], [-0.8, 0.9], [1.0, 1.0]])
SOFTMAX = {"negatives": "softmax", "temperature": 0.2}
WEIGHTED = {"std": "weighted"}
SIMILAR = [
    ({}, {"negatives": "affine"}),
    ({}, {"self_weight": "loo"}),
    (SOFTMAX, {"temperature": 0.5}),
    ({}, WEIGHTED),
    ({}, {"singleton": "raw"}),
    ({}, {"tol": 10.0}),
    (WEIGHTED, {"eps": 0.1}),
    ({"std": "group"}, {"eps": 0.1}),
    ({}, {"row_weight": "1/rows"}),
]
SUFFIX = {"baseline": "index_suffix"}
OPTIONS = {
    "trajectory_grpo": [
        ({}, {"std": "biased"}),
        ({}, {"loo": True}),
        ({}, {"singleton": "raw"}),
        ({}, {"tol": 10.0}),
        ({}, {"eps": 0.1}),
        ({}, {"row_weight": "1/rows"}),
    ],
    "spo": [*SIMILAR, ({}, {"scope": "batch"})],
    "spo_prefix": SIMILAR,
    "turn_grpo": [
        ({}, {"baseline": "fixed_horizon"}),
        (SUFFIX, {"index_mean": "padded"}),
        *[
            case
            for base in ({}, SUFFIX)
            for case in [(base, {"std": "biased"}), (base, {"loo": True}), (base, {"tol": 10.0})]
        ],
        ({"std": "biased"}, {"eps": 0.1}),
        ({"std": "biased", **SUFFIX}, {"eps": 0.1}),
        ({}, {"singleton": "raw"}),
    ],
}
CASES = [(name, base, change) for name, cases in OPTIONS.items() for base, change in cases]


def made(name, options):
    steps = torch.tensor([[0, 0, 1], [2, 2, 2], [0, 1, 1], [0, 0, 1], [0, 0, 1]])
    prefixes = torch.stack([torch.zeros_like(VECTORS), VECTORS, VECTORS.flip(1)], dim=1)
    inputs = batch(**BATCH, embeddings=VECTORS, prefix_embeddings=prefixes, step=steps)
    return registered_estimators()[name].compute(inputs, options).advantages


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "base", "change"), CASES, ids=lambda value: str(value))
def test_it_changes_advantages(name, base, change):
    before, after = made(name, base), made(name, {**base, **change})
    assert not torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("std", ["biased", "unbiased"])
def test_eps_is_added_to_the_deviation(std):
    """Totals 1.8, 0.7 and 0.4: by hand."""
    mean, n = (1.8 + 0.7 + 0.4) / 3, 3 if std == "biased" else 2
    deviation = math.sqrt(sum((x - mean) ** 2 for x in (1.8, 0.7, 0.4)) / n)
    found = made("trajectory_grpo", {"std": std, "eps": 0.5})
    assert float(found[0, 0]) == pytest.approx((1.8 - mean) / (deviation + 0.5))


def test_lines_of_the_card_say_their_discounts():
    for case in [case for each in registered_estimators().values() if each.card for case in each.card.cases]:
        said = re.findall(r"(lam_turn|gamma_turn) = ([\d.]+)", case.name)
        given = case.discounts or Discounts()
        assert [getattr(given, name) for name, _ in said] == [float(value) for _, value in said], case.name
