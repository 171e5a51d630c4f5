import math
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType
from verl.workers.utils.losses import ppo_loss

from docagent_rl.losses.config import KlScope, KlType, ObservationKl
from docagent_rl.training.tensors import read_rows
from docagent_rl.training.workers.observation_kl import (
    ExactValues,
    ObservationKlLoss,
    observation_totals,
)
from tests.training.workers.batches import (
    actor,
    batch,
    gradients,
    nested,
    ragged,
    rule,
    with_numbers,
)

RESPONSES = ["soiis", "ss", "siio", "iio"]
PROMPTS = [2, 3, 1, 2]
SAMPLED, ROWS = 5, 4
CONFIG = ObservationKl(coef=0.01, type=KlType.K3, scope=KlScope.IMAGE)
EXACT = CONFIG.model_copy(update={"type": KlType.EXACT})


def full(responses: list[str] = RESPONSES, prompts: list[int] = PROMPTS) -> TensorDict:
    """Return a batch with the log-probs of all parties; `own` (whole rows) is the policy's
    output.
    """
    generator = torch.Generator().manual_seed(0)
    data = batch(responses, prompts)

    def draw(lengths: list[int]):
        return nested([-3 * torch.rand(n, generator=generator) for n in lengths])

    lengths = [len(text) for text in responses]
    for name in ("old_log_probs", "advantages", "ref_log_prob"):
        data[name] = draw(lengths)
    data["own"] = draw([p + n for p, n in zip(prompts, lengths, strict=True)])
    return data


def base(mode: str = "token-mean"):
    return partial(ppo_loss, config=actor(mode))


def term(config: ObservationKl = CONFIG, mode: str = "token-mean", **options) -> ObservationKlLoss:
    return ObservationKlLoss(base(mode), config, rule(config.scope), aggregation=mode, **options)


def run(loss, data: TensorDict, part=slice(None), **numbers) -> tuple[float, dict, torch.Tensor]:
    """Return the loss, the metrics and the gradient of the log-probs of some rows, with counts over
    all rows.
    """
    totals = observation_totals(read_rows(data), rule())
    chosen = tu.index_select_tensor_dict(data, list(range(len(data)))[part])
    chosen = with_numbers(chosen, totals, **({"tokens": SAMPLED, "rows": ROWS} | numbers))
    return gradients(loss, chosen)


def k3_by_row(data: TensorDict, kind: str) -> list[list[float]]:
    """Return the estimator at the tokens of a kind, in rows that have a sampled token."""
    found = []
    rows = zip(RESPONSES, PROMPTS, data["own"].unbind(), data["ref_log_prob"].unbind(), strict=True)
    for text, prompt, own, ref in rows:
        at = [j for j, each in enumerate(text) if each == kind and "s" in text]
        differences = [(ref[j] - own[prompt + j - 1]).item() for j in at]
        found.append([math.exp(d) - d - 1 for d in differences])
    return found


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
    plain, plain_metrics, plain_gradient = run(base(mode), data)
    value, metrics, gradient = run(term(mode=mode), data)
    kl = expected(k3_by_row(data, "i"))
    assert value - plain == pytest.approx(0.01 * kl, rel=1e-4)
    assert metrics["kl_observation"].aggregate() == pytest.approx(kl, rel=1e-5)
    for name, kind, number in (("kl_generated", "s", 5), ("kl_visual", "i", 4)):
        mean = sum(map(sum, k3_by_row(data, kind))) / number
        assert metrics[name].aggregate() == pytest.approx(mean, rel=1e-5)
    # verl's numbers stand beside ours, and no position is pulled by both terms
    assert plain_metrics.keys() <= metrics.keys()
    assert metrics["kl_loss"].aggregate() == plain_metrics["kl_loss"].aggregate()
    ours = (gradient - plain_gradient).abs() > 1e-9
    assert not (ours & (plain_gradient != 0)).any()
    # the placeholders of "soiis" are tokens 2 and 3 after a prompt of 2; those of "siio" 1 and 2
    # after one of 1, behind 7 and 5 tokens of the rows before
    assert ours.nonzero()[:, 0].tolist() == [
        at - 1 for at in (2 + 2, 2 + 3, 12 + 1 + 1, 12 + 1 + 2)
    ]


def test_means_do_not_depend_on_micro_batches_or_workers():
    data = full()
    """verl averages the gradients of its workers, so each scales its part up."""
    one, two = (run(term(), data, workers=n)[0] - run(base(), data, workers=n)[0] for n in (1, 2))
    assert two == pytest.approx(2 * one, rel=1e-4)
    whole, metrics, _ = run(term(), data)
    parts = [run(term(), data, half) for half in (slice(0, 2), slice(2, 4))]
    assert sum(value for value, *_ in parts) == pytest.approx(whole, rel=1e-5)
    for name in ("kl_observation", "kl_generated", "kl_visual", "kl_clamped"):
        assert metrics[name].aggregation is AggregationType.SUM
        together = sum(found[name].aggregate() for _, found, _ in parts)
        assert together == pytest.approx(metrics[name].aggregate(), rel=1e-5)


def test_share_of_clamped_positions():
    data = full(["sii"], [1])
    data["ref_log_prob"] = ragged([[0.0, 0.0, -5.0]])
    data["own"] = ragged([[-5.0, -5.0, -5.0, 0.0]])
    metrics = run(term(), data, tokens=1, rows=1)[1]
    assert metrics["kl_clamped"].aggregate() == 0.5
    assert metrics["kl_observation"].aggregate() == pytest.approx(5.0)


@pytest.mark.parametrize("responses", [["sss", "so"], ["sss", "iio"]])
def test_without_observations_the_loss_is_verls(responses):
    data = full(responses, [2, 2])
    plain, _, plain_gradient = run(base(), data)
    value, metrics, gradient = run(term(), data)
    assert value == plain
    assert torch.equal(gradient, plain_gradient)
    assert metrics["kl_observation"].aggregate() == metrics["kl_visual"].aggregate() == 0


def test_exact_values_are_put_where_they_belong():
    weights = torch.arange(4.0, requires_grad=True)

    def exact(data: TensorDict, rows, mask) -> ExactValues:
        assert mask.sum() == 4
        return ExactValues(weights * 2, torch.full((4,), 0.25), torch.full((4,), 0.5))

    _, metrics, _ = run(term(EXACT, "seq-mean-token-mean", exact=exact), full())
    assert metrics["kl_observation"].aggregate() == pytest.approx(((0 + 2) / 2 + (4 + 6) / 2) / 2)
    assert metrics["observation_drift_l2"].aggregate() == 0.25
    assert metrics["observation_drift_cosine"].aggregate() == 0.5
    torch.testing.assert_close(weights.grad, torch.full((4,), 0.01 * 2 / 2 / 2))


def test_exact_belongs_to_its_type():
    with pytest.raises(ValueError, match="k3"):
        term(exact=lambda **_: None)
    with pytest.raises(ValueError, match="exact=None"):
        term(EXACT)
