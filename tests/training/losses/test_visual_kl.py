from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from verl.utils.metric import AggregationType
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from docagent_rl.losses.config import KlScope, KlType, ObservationKl
from docagent_rl.training.losses.batch import read_rows
from docagent_rl.training.losses.visual_kl import ExactValues, ObservationKlLoss, Totals
from tests.training.losses.batches import batch, nested, rule, with_numbers

RESPONSES = ["soiis", "ss", "siio", "iio"]
PROMPTS = [2, 3, 1, 2]
SAMPLED, ROWS = 5, 4


def actor(mode: str = "token-mean", **changes) -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=4,
        ppo_micro_batch_size_per_gpu=4,
        use_kl_loss=True,
        kl_loss_coef=0.001,
        loss_agg_mode=mode,
        **changes,
    )


def full(responses: list[str] = RESPONSES, prompts: list[int] = PROMPTS, seed: int = 0) -> TensorDict:
    """With the log-probs of all parties; `own` (whole rows) is the policy's output."""
    generator = torch.Generator().manual_seed(seed)
    data = batch(responses, prompts)

    def draw(lengths: list[int]):
        return nested([-3 * torch.rand(n, generator=generator) for n in lengths])

    lengths = [len(text) for text in responses]
    for name in ("old_log_probs", "advantages", "ref_log_prob"):
        data[name] = draw(lengths)
    data["own"] = draw([p + n for p, n in zip(prompts, lengths, strict=True)])
    return data


def term(config: ObservationKl, mode: str = "token-mean", **options) -> ObservationKlLoss:
    return ObservationKlLoss(
        partial(ppo_loss, config=actor(mode)), config, rule(config.scope), aggregation=mode, **options
    )


def run(loss, data: TensorDict, **numbers) -> tuple[torch.Tensor, dict, torch.Tensor]:
    """Loss, metrics and the gradient of the log-probs of each row."""
    totals = Totals.count(read_rows(data), rule())
    data = with_numbers(data, totals, **({"tokens": SAMPLED, "rows": ROWS} | numbers))
    values = data["own"].values().clone().requires_grad_()
    own = torch.nested.nested_tensor_from_jagged(values, data["own"].offsets())
    value, metrics = loss(model_output={"log_probs": own}, data=data)
    value.backward()
    return value.detach(), metrics, values.grad


def k3_by_row(data: TensorDict) -> list[list[float]]:
    """The estimator at the image placeholders of rows that hold a sampled token."""
    found = []
    for row, (text, prompt) in enumerate(zip(RESPONSES, PROMPTS, strict=True)):
        own, ref = data["own"].unbind()[row], data["ref_log_prob"].unbind()[row]
        values = []
        for j, kind in enumerate(text):
            if kind == "i" and "s" in text:
                d = (ref[j] - own[prompt + j - 1]).item()
                values.append(math.exp(d) - d - 1)
        found.append(values)
    return found


CONFIG = ObservationKl(coef=0.01, type=KlType.K3, scope=KlScope.IMAGE)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token-mean", lambda rows: sum(map(sum, rows)) / 4),
        # rows without images count neither above nor below
        ("seq-mean-token-mean", lambda rows: sum(sum(r) / len(r) for r in rows if r) / 2),
        ("seq-mean-token-sum", lambda rows: sum(map(sum, rows)) / 2),
        ("token-sum", lambda rows: sum(map(sum, rows))),
    ],
)
def test_adds_the_term_to_verls_loss(mode, expected):
    data = full()
    plain, plain_metrics, plain_gradient = run(partial(ppo_loss, config=actor(mode)), data)
    value, metrics, gradient = run(term(CONFIG, mode), data)
    kl = expected(k3_by_row(data))
    assert (value - plain).item() == pytest.approx(0.01 * kl, rel=1e-4)
    assert metrics["kl_observation"].aggregate() == pytest.approx(kl, rel=1e-5)
    # verl's numbers stand beside ours, and no position is pulled by both terms
    assert {n: m for n, m in metrics.items() if n in plain_metrics}.keys() == plain_metrics.keys()
    assert metrics["kl_loss"].aggregate() == plain_metrics["kl_loss"].aggregate()
    ours = (gradient - plain_gradient).abs() > 1e-9
    assert not (ours & (plain_gradient != 0)).any()
    starts = torch.tensor([0, *(p + len(t) for p, t in zip(PROMPTS, RESPONSES, strict=True))]).cumsum(0)
    # the placeholders of "soiis" are tokens 2 and 3 after a prompt of 2, those of "siio" 1 and 2 after 1
    pulled = [starts[0] + 2 + 2, starts[0] + 2 + 3, starts[2] + 1 + 1, starts[2] + 1 + 2]
    assert ours.nonzero()[:, 0].tolist() == [int(p) - 1 for p in pulled]


def test_means_do_not_depend_on_micro_batches():
    data = full()
    loss = term(CONFIG)
    totals = Totals.count(read_rows(data), rule())
    numbered = with_numbers(data, totals, tokens=SAMPLED, rows=ROWS)
    whole, metrics = loss(model_output={"log_probs": data["own"]}, data=numbered)
    parts = []
    for half in (slice(0, 2), slice(2, 4)):
        rows = {name: nested(list(data[name].unbind()[half])) for name in data.keys()}  # noqa: SIM118
        part = with_numbers(TensorDict(rows, batch_size=2), totals, tokens=SAMPLED, rows=ROWS)
        parts.append(loss(model_output={"log_probs": part["own"]}, data=part))
    torch.testing.assert_close(sum(value for value, _ in parts), whole)
    for name in ("kl_observation", "kl_generated", "kl_visual", "kl_clamped"):
        assert metrics[name].aggregation is AggregationType.SUM
        together = sum(found[name].aggregate() for _, found in parts)
        assert together == pytest.approx(metrics[name].aggregate(), rel=1e-5)


def test_workers_average_to_the_global_mean():
    data = full()
    one, _, _ = run(partial(ppo_loss, config=actor()), data)
    two, _, _ = run(term(CONFIG), data, workers=2)
    both, _, _ = run(partial(ppo_loss, config=actor()), data, workers=2)
    single, _, _ = run(term(CONFIG), data)
    # verl averages the gradients of its workers, so each scales its part up
    assert (two - both).item() == pytest.approx(2 * (single - one).item(), rel=1e-4)


def test_metrics_tell_the_two_kinds_of_tokens_apart():
    data = full()
    metrics = run(term(CONFIG), data)[1]
    generated = []
    for row, (text, prompt) in enumerate(zip(RESPONSES, PROMPTS, strict=True)):
        for j, kind in enumerate(text):
            if kind == "s":
                d = (data["ref_log_prob"].unbind()[row][j] - data["own"].unbind()[row][prompt + j - 1]).item()
                generated.append(math.exp(d) - d - 1)
    assert metrics["kl_generated"].aggregate() == pytest.approx(sum(generated) / 5, rel=1e-5)
    visual = [value for row in k3_by_row(data) for value in row]
    assert metrics["kl_visual"].aggregate() == pytest.approx(sum(visual) / 4, rel=1e-5)


def test_share_of_clamped_positions():
    data = full(["sii"], [1])
    data["ref_log_prob"] = nested([torch.tensor([0.0, 0.0, -5.0])])
    data["own"] = nested([torch.tensor([-5.0, -5.0, -5.0, 0.0])])
    metrics = run(term(CONFIG), data, tokens=1, rows=1)[1]
    assert metrics["kl_clamped"].aggregate() == 0.5
    assert metrics["kl_observation"].aggregate() == pytest.approx(5.0)


@pytest.mark.parametrize("responses", [["sss", "so"], ["sss", "iio"]])
def test_without_observations_the_loss_is_verls(responses):
    data = full(responses, [2, 2])
    plain, _, plain_gradient = run(partial(ppo_loss, config=actor()), data)
    value, metrics, gradient = run(term(CONFIG), data)
    assert value == plain
    assert torch.equal(gradient, plain_gradient)
    assert metrics["kl_observation"].aggregate() == metrics["kl_visual"].aggregate() == 0


def test_exact_values_are_put_where_they_belong():
    data = full()
    weights = torch.arange(4.0, requires_grad=True)

    def exact(data: TensorDict, rows, mask) -> ExactValues:
        assert mask.sum() == 4
        return ExactValues(weights * 2, torch.full((4,), 0.25), torch.full((4,), 0.5))

    config = CONFIG.model_copy(update={"type": KlType.EXACT})
    _, metrics, _ = run(term(config, "seq-mean-token-mean", exact=exact), data)
    assert metrics["kl_observation"].aggregate() == pytest.approx(((0 + 2) / 2 + (4 + 6) / 2) / 2)
    assert metrics["observation_drift_l2"].aggregate() == 0.25
    assert metrics["observation_drift_cosine"].aggregate() == 0.5
    torch.testing.assert_close(weights.grad, torch.full((4,), 0.01 * 2 / 2 / 2))


def test_exact_belongs_to_its_type():
    with pytest.raises(ValueError, match="k3"):
        term(CONFIG, exact=lambda **_: None)
    with pytest.raises(ValueError, match="exact=None"):
        term(CONFIG.model_copy(update={"type": KlType.EXACT}))
