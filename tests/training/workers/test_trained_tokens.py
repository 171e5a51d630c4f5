"""The losses of policy and critic, compared with float64, if not everything of a mini-batch is
trained.
"""

from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss, value_loss

from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.tensors import read_rows
from docagent_rl.training.workers.critic import VALUE_MASK
from docagent_rl.training.workers.observation_kl import ObservationKlLoss, observation_totals
from docagent_rl.training.workers.trained_tokens import trained_rows
from docagent_rl.training.workers.turn_loss import TURNS, TurnMeanLoss, trained_turns
from tests.training.ranks import last_report
from tests.training.workers.batches import IMAGE, nested
from tools.gpu_check.loss_batches import (
    FIELDS,
    Recorder,
    SpelledRow,
    add_numbers,
    make_batch,
    wholes,
)
from tools.gpu_check.loss_reference import (
    KL_TYPES,
    MODES,
    TARGETS,
    TRAINED,
    TURN,
    Objective,
    ReferenceRow,
    policy_loss,
)
from tools.gpu_check.loss_reference import (
    value_loss as slow_value_loss,
)
from tools.gpu_check.loss_update import critic_settings, policy_settings

MOST = 1e-5
"""The largest difference in float32, as a share of the largest number."""
RANKS = (1, 2)


@pytest.fixture(scope="module", params=RANKS)
def report(request, tmp_path_factory, warm_python) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("loss")
    return last_report(
        warm_python, "tests.training.workers.loss_engine", folder, ranks=request.param
    )


@pytest.mark.slow
def test_updates_by_verls_workers_are_those_of_what_is_trained_alone(report):
    found = {name: max(case.values()) for name, case in report["differences"].items()}
    assert len(found) >= 5 * (7 + 5)
    assert {name: value for name, value in found.items() if not value < MOST} == {}
    seen = {name: set(case) for name, case in report["differences"].items()}
    assert seen["policy|token-mean|masked|micro-batches of tokens"] > {
        "loss",
        "gradient by entropy",
    }


@pytest.mark.slow
def test_gradients_of_the_parameters_are_those_of_a_model_in_float64(report):
    assert report["parameters"].keys() == set(MODES)
    assert max(report["parameters"].values()) < 2 * MOST


@pytest.mark.slow
def test_a_mini_batch_of_which_nothing_is_trained_leaves_the_weights_alone(report):
    found = report["nothing"]
    assert found["first"] > 0.01
    # though the optimizer has momentum, and decays weights
    assert found["moved"] == 0
    assert found["metrics"] == {"mfu": [0.0], "lr": [0.01]}
    assert found["half"] > 0.01
    assert found["finite"]


@pytest.mark.slow
def test_verl_alone_shrinks_the_update_of_the_others(report):
    """Two of eight rows are masked, and their tokens do not count; in other rows some tokens are
    rejected.
    """
    found = report["verl"]
    assert found["seq-mean-token-mean, masked"] == pytest.approx(1 - 6 / 8, rel=1e-4)
    assert found["token-mean, rejected"] > 0.1
    assert found["token-mean, masked"] < MOST


def test_the_mean_is_that_of_the_three_alone_when_one_of_four_is_masked():
    """By hand, the gradients are -A / tokens / rows at a ratio of 1; verl's own are 3/4 of
    these.
    """
    rows = [SpelledRow(2, kinds, n) for n, kinds in enumerate(("ss", "sosss", "s", "oo"))]
    data = make_batch(rows, (10, 60), IMAGE)
    own = [torch.full((len(row.kinds),), -1.0) for row in rows]
    add_numbers(data, own)
    data["old_log_probs"] = nested(own)
    for name in ("advantages", "rollout_is_weights"):
        data[name] = nested([torch.full_like(row, 2.0) for row in own])
    goal = Objective("seq-mean-token-mean", kl=0.0, entropy=0.0)
    seen, _ = update(
        partial(ppo_loss, config=policy_settings(goal)), data, {"log_probs": own}, [[0, 1, 2, 3]]
    )
    found = [seen[number].gradients["log_probs"].tolist() for number in range(4)]
    expected = [[-4 / 2 / 3] * 2, [-4 / 4 / 3, 0, *[-4 / 4 / 3] * 3], [-4 / 3], [0, 0]]
    assert found == [pytest.approx(row) for row in expected]


def whole_rows(data: TensorDict, parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the model's outputs over prompts and responses, where each output is one position
    before its token.
    """
    lengths = data["prompts"].offsets().diff().tolist()
    return nested(
        [
            torch.cat([torch.zeros(n - 1), p, torch.zeros(1)])
            for n, p in zip(lengths, parts, strict=True)
        ]
    )


def update(
    loss,
    data: TensorDict,
    outputs: dict[str, list[torch.Tensor]],
    cut: list[list[int]],
    workers: int = 1,
) -> tuple[dict, float]:
    """Return rows as a loss has seen them, and the sum over micro-batches, for which the engine
    provides the counts.
    """
    numbers = {"dp_size": workers, "batch_num_tokens": int(data["response_mask"].sum())}
    numbers |= {"global_batch_size": trained_rows(data)} | observation_totals(read_rows(data), RULE)
    numbers[TURNS] = trained_turns(data)
    recorder, total = Recorder(loss), 0.0
    for rows in cut:
        part = tu.index_select_tensor_dict(data, rows)
        tu.assign_non_tensor(part, **numbers)
        given = {
            name: whole_rows(part, [each[row] for row in rows]) for name, each in outputs.items()
        }
        total += float(recorder(model_output=given, data=part)[0])
    return recorder.rows, total / workers


RULE = ObservationRule(KlScope.ALL, KlPlace.LABEL, IMAGE)
kinds = st.text("sproi", min_size=1, max_size=6)
steps = st.lists(st.tuples(st.integers(1, 3), kinds), min_size=1, max_size=5)


def cut_of(rows: list, draw: st.DataObject) -> list[list[int]]:
    """Return micro-batches in any order."""
    order = draw.draw(st.permutations(range(len(rows))))
    ends = sorted(draw.draw(st.sets(st.integers(1, len(rows) - 1)))) if len(rows) > 1 else []
    return [order[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]


def slow_rows(rows: list[SpelledRow], data: TensorDict, seen: dict) -> list[ReferenceRow]:
    found = []
    for number, (row, whole) in enumerate(zip(rows, wholes(rows), strict=True)):
        numbers = {name: data[name].unbind()[number].double() for name in FIELDS}
        numbers |= {
            name: each.double().requires_grad_() for name, each in seen[number].outputs.items()
        }
        found.append(ReferenceRow(row.kinds, numbers, whole))
    return found


def same(
    seen: dict, total: float, rows: list[ReferenceRow], expected: torch.Tensor, workers: int
) -> None:
    assert total == pytest.approx(expected.item(), rel=1e-4, abs=1e-5)
    for name in seen[0].gradients:
        leaves = [row.numbers[name] for row in rows]
        slopes = torch.autograd.grad(
            expected, leaves, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for number, slope in enumerate(slopes):
            own = seen[number].gradients[name].double() / workers
            torch.testing.assert_close(own, slope, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    steps,
    st.sampled_from([*MODES, TURN]),
    st.sampled_from(KL_TYPES),
    st.sampled_from(["k1", "k2", "k3", "k3+"]),
    st.integers(1, 3),
    st.integers(0, 99),
    st.data(),
)
def test_a_policys_loss_of_any_rows_in_any_micro_batches(
    spelled, mode, kl_type, observed, workers, seed, draw
):
    rows = [SpelledRow(prompt, text, 0) for prompt, text in spelled]
    if not any(TRAINED & set(row.kinds) for row in rows):
        rows.append(SpelledRow(1, "s", 0))
    data = make_batch(rows, (10, 60), IMAGE, seed)
    generator = torch.Generator().manual_seed(seed)
    own = [-3 * torch.rand(len(row.kinds), generator=generator) for row in rows]
    entropy = [torch.rand(len(row.kinds), generator=generator) for row in rows]
    add_numbers(data, own, seed)
    goal = Objective(mode, kl_type=kl_type, observation=0.3, observation_type=observed)
    config = ObservationKl(coef=0.3, type=KlType(observed), scope=KlScope.ALL)
    base = partial(ppo_loss, config=policy_settings(goal))
    scale = goal.scale if mode.endswith("norm") else None
    by_turn = mode == TURN
    base = TurnMeanLoss(base) if by_turn else base
    mode = policy_settings(goal).loss_agg_mode
    loss = ObservationKlLoss(
        base, config, RULE, aggregation=mode, scale_factor=scale, by_turn=by_turn
    )
    outputs = {"log_probs": own, "entropy": entropy}
    seen, total = update(loss, data, outputs, cut_of(rows, draw), workers)
    slow = slow_rows(rows, data, seen)
    same(seen, total, slow, policy_loss(slow, goal)["loss"], workers)


@settings(deadline=None, max_examples=30)
@given(steps, st.sampled_from(MODES), st.integers(1, 3), st.integers(0, 99), st.data())
def test_a_critics_loss_of_any_rows_in_any_micro_batches(spelled, mode, workers, seed, draw):
    rows = [SpelledRow(prompt, text, 0) for prompt, text in spelled]
    if not any(TARGETS & set(row.kinds) for row in rows):
        rows.append(SpelledRow(1, "s", 0))
    data = make_batch(rows, (10, 60), IMAGE, seed)
    own = [
        torch.randn(len(row.kinds), generator=torch.Generator().manual_seed(seed)) for row in rows
    ]
    add_numbers(data, own, seed)
    # as `CriticWorker` does
    data["response_mask"] = data[VALUE_MASK]
    goal = Objective(mode)
    loss = partial(value_loss, config=critic_settings(goal))
    seen, total = update(loss, data, {"values": own}, cut_of(rows, draw), workers)
    slow = slow_rows(rows, data, seen)
    same(seen, total, slow, slow_value_loss(slow, goal)["loss"], workers)
