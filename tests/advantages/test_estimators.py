"""Properties that every estimator of the package has, whatever it does with the rewards."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from torch.nn.functional import pad

from docagent_rl.advantages import (
    AdvantageInputs,
    Advantages,
    Discounts,
    Need,
    registered_estimators,
)
from docagent_rl.advantages.grpo import TurnBaseline
from docagent_rl.base.errors import UserError
from tests.advantages.batches import (
    Shape,
    batch,
    build,
    checked,
    discounts,
    from_turn_rewards,
    noise_off_tokens,
    shapes,
    take_rows,
)

GROUPED = [
    ("trajectory_grpo", {}),
    ("spo", {}),
    ("spo_prefix", {}),
    *(("turn_grpo", {"baseline": baseline}) for baseline in TurnBaseline),
]
CASES = [
    ("token_gae", {}),
    ("turn_gae", {}),
    ("turn_gae", {"anchor": "start"}),
    *GROUPED,
    ("spo", {"negatives": "softmax", "temperature": 0.2}),
    ("spo", {"negatives": "affine"}),
]
SMALL = Shape([[[(0, 3), (1, 2)], [(2, 2)]], [[(0, 4)]], [[(1, 2), (1, 1)]]], [0, 0, 1], seed=9)
MISSING = {Need.VALUES: "values", Need.EMBEDDINGS: "embeddings", Need.PREFIXES: "prefix_embeddings"}
every = pytest.mark.parametrize(("name", "options"), CASES, ids=str)


def made(name: str, options: dict, inputs: AdvantageInputs) -> Advantages:
    """Return the function's own result; `compute` would put zeros outside the mask."""
    estimator = registered_estimators()[name]
    return estimator.function(inputs, **estimator.parse(options))


def alike(
    found: Advantages, wanted: Advantages, rows: torch.Tensor | slice = slice(None), **close
) -> None:
    for name in ("advantages", "returns"):
        torch.testing.assert_close(getattr(found, name), getattr(wanted, name)[rows], **close)


def test_all_estimators_are_tried() -> None:
    own = {
        n
        for n, e in registered_estimators().items()
        if e.function.__module__.startswith("docagent_rl.")
    }
    assert own == {name for name, _ in CASES}


@every
@settings(checked, max_examples=12)
@given(shape=shapes(), d=discounts)
def test_noise_order_ids_padding_and_copies_do_not_matter(
    name, options, shape: Shape, d: Discounts
) -> None:
    inputs = build(shape, d)
    found = made(name, options, inputs)
    assert not found.advantages[~inputs.mask].any()
    assert not found.returns[~inputs.mask].any()
    alike(made(name, options, noise_off_tokens(inputs)), found, atol=0, rtol=0)
    order = torch.randperm(len(inputs.row), generator=torch.Generator().manual_seed(shape.seed))
    moved = take_rows(
        inputs,
        order,
        trajectory=1000 - inputs.trajectory[order],
        group=50 - inputs.group[order],
        embeddings=inputs.embeddings.flip(0),
        prefix_embeddings=inputs.prefix_embeddings.flip(0),
    )
    alike(made(name, options, moved), found, order, atol=1e-5, rtol=1e-5)
    twice = torch.cat([torch.arange(len(order)), order[:2]])
    alike(made(name, options, take_rows(inputs, twice, valid=None)), found, twice)
    fills = {"token_rewards": 0, "values": 8.0, "mask": 0, "turn_index": -1, "step": -1}
    wide = made(name, options, replace(inputs, **{n: pad(getattr(inputs, n), (0, 5), value=v)
                                                  for n, v in fills.items()}))  # fmt: skip
    assert torch.equal(wide.advantages, pad(found.advantages, (0, 5)))


@every
def test_half_precision_is_computed_in_float64_and_given_in_float32(name, options) -> None:
    inputs = build(SMALL)
    half = {field: getattr(inputs, field).bfloat16() for field in ("token_rewards", "values")}
    found = made(name, options, replace(inputs, **half))
    exact = made(
        name, options, replace(inputs, **{field: value.double() for field, value in half.items()})
    )
    assert found.advantages.dtype == torch.float32
    torch.testing.assert_close(found.advantages, exact.advantages.float())


@every
def test_where_nothing_is_sampled_nothing_is_credited(name, options) -> None:
    one = torch.ones(1, 2, 2)
    nothing = {"embeddings": one[0, :1], "prefix_embeddings": one, "step": torch.full((1, 2), -1)}
    inputs = batch(turns=[[-1, -1]], rewards=[[1.0, 2.0]], values=[[1.0, 2.0]], **nothing)
    assert made(name, options, inputs).advantages.tolist() == [[0.0, 0.0]]


@every
def test_what_is_needed_and_missing_is_named(name, options) -> None:
    for need in registered_estimators()[name].needs:
        with pytest.raises(UserError, match=f"{MISSING[need]} is missing"):
            made(name, options, replace(build(SMALL), **{MISSING[need]: None}))


@pytest.mark.parametrize(("name", "options"), GROUPED, ids=str)
def test_groups_of_one(name, options) -> None:
    vectors = {"embeddings": torch.ones(3, 2), "prefix_embeddings": torch.ones(3, 3, 2)}
    step = torch.tensor([[0, -1, 1, -1], [0, -1, -1, -1], [0, -1, -1, -1]])
    inputs = from_turn_rewards([[2.0, 1.0], [1.0], [3.0]], group=[0, 1, 1], step=step, **vectors)
    options = {"std": "none", **options}
    found = made(name, options, inputs)
    assert not found.advantages[0].any()
    assert [v for n, v in found.metrics.items() if n.endswith("/singleton_groups")] == [0.5]
    raw = made(name, {**options, "singleton": "raw"}, inputs).advantages
    assert raw[0].tolist() == [3.0, 0, 1.0 if name == "turn_grpo" else 3.0, 0]
    assert raw[1:, 0].tolist() == pytest.approx([-1.0, 1.0])
    with pytest.raises(UserError, match="1 group"):
        made(name, {**options, "singleton": "error"}, inputs)
