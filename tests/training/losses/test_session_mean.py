from __future__ import annotations

from functools import partial

import pytest
import torch
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType
from verl.workers.config import FSDPActorConfig
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.losses.session_mean import SESSION_TOKENS, SESSIONS, SessionMeanLoss, sessions_in
from tests.training.losses.batches import batch, nested

RESPONSES = ["sssos", "ss", "sooos", "s", "ssssss", "oo"]
PROMPTS = [2, 3, 1, 2, 4, 2]
SESSION = [0, 0, 1, 0, 2, 3]
"""The rows of the first session are not neighbours; the last row is masked."""
TOKENS = [text.count("s") for text in RESPONSES]
WHOLE = [sum(n for n, other in zip(TOKENS, SESSION, strict=True) if other == own) for own in SESSION]
CLIP, CLIP_C, KL, ENTROPY = 0.2, 1.5, 0.05, 0.01


def actor(mode: str) -> FSDPActorConfig:
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=4,
        ppo_micro_batch_size_per_gpu=4,
        use_kl_loss=True,
        kl_loss_coef=KL,
        clip_ratio_c=CLIP_C,
        entropy_coeff=ENTROPY,
        loss_agg_mode=mode,
    )


def full(seed: int = 0) -> TensorDict:
    """Ratios on both sides of every clip, advantages of both signs, weights of a rollout correction."""
    generator = torch.Generator().manual_seed(seed)
    data = batch(RESPONSES, PROMPTS)
    lengths = [len(text) for text in RESPONSES]
    whole = [p + n for p, n in zip(PROMPTS, lengths, strict=True)]

    def draw(sizes, scale=1.0):
        return [scale * torch.randn(n, generator=generator) for n in sizes]

    data["own"] = nested([row - 2 for row in draw(whole)])
    data["entropy"] = nested([row.abs() for row in draw(whole)])
    for name in ("old_log_probs", "ref_log_prob"):
        data[name] = nested([row - 2 for row in draw(lengths)])
    data["advantages"] = nested(draw(lengths, 2.0))
    data["rollout_is_weights"] = nested([row.abs() for row in draw(lengths)])
    data[SESSION_TOKENS] = nested([torch.tensor([n]) for n in WHOLE])
    return data


def by_hand(data: TensorDict, sessions: list[int]) -> torch.Tensor:
    """A token at a time: the mean over sessions of the mean over the tokens of all their rows."""
    columns = ["own", "entropy", "old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights"]
    rows = list(zip(*(data[name].unbind() for name in columns), strict=True))
    means = []
    for session in sessions:
        losses = []
        for row, text in enumerate(RESPONSES):
            if SESSION[row] != session:
                continue
            own, entropy, old, ref, advantage, weight = rows[row]
            for t, kind in enumerate(text):
                if kind != "s":
                    continue
                log_prob = own[PROMPTS[row] + t - 1]
                ratio, a = (log_prob - old[t]).exp(), advantage[t]
                loss = torch.max(-a * ratio, -a * ratio.clamp(1 - CLIP, 1 + CLIP))
                if a < 0:
                    loss = torch.min(loss, -a * CLIP_C)
                d = ref[t] - log_prob
                kl = (d.exp() - d - 1).clamp(-10, 10)
                losses.append(loss * weight[t] - ENTROPY * entropy[PROMPTS[row] + t - 1] + KL * kl)
        means.append(torch.stack(losses).mean())
    return torch.stack(means).mean()


def run(loss, data: TensorDict, rows: list[int], share: float, workers: int = 1):
    """Loss, gradient of the log-probs by row, metrics of a micro-batch of some rows."""
    part = tu.index_select_tensor_dict(data, rows)
    tokens = sum(TOKENS[row] for row in rows)
    tu.assign_non_tensor(
        part, dp_size=workers, batch_num_tokens=tokens, global_batch_size=len(rows), **{SESSIONS: share}
    )
    values = part["own"].values().clone().requires_grad_()
    own = torch.nested.nested_tensor_from_jagged(values, part["own"].offsets())
    value, metrics = loss(model_output={"log_probs": own, "entropy": part["entropy"]}, data=part)
    value.backward()
    lengths = part["own"].offsets().diff().tolist()
    return value.item(), dict(zip(rows, values.grad.split(lengths), strict=True)), metrics


def expected(data: TensorDict, sessions: list[int]) -> tuple[float, list[torch.Tensor]]:
    leaves = [row.clone().requires_grad_() for row in data["own"].unbind()]
    value = by_hand(data.clone().set("own", nested(leaves)), sessions)
    gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    return value.item(), [
        torch.zeros_like(r) if g is None else g for g, r in zip(gradients, leaves, strict=True)
    ]


@pytest.fixture
def loss() -> SessionMeanLoss:
    return SessionMeanLoss(partial(ppo_loss, config=actor("token-sum")))


@pytest.mark.parametrize("seed", range(3))
def test_sessions_of_several_rows_against_a_loop_over_tokens(loss, seed):
    data = full(seed)
    assert sessions_in(data) == pytest.approx(3)
    value, gradients, metrics = run(loss, data, list(range(6)), 3.0)
    slow, slow_gradients = expected(data, [0, 1, 2])
    assert value == pytest.approx(slow, rel=1e-5)
    for row, gradient in gradients.items():
        torch.testing.assert_close(gradient, slow_gradients[row], rtol=1e-4, atol=1e-6)
    parts = metrics["actor/pg_loss"].aggregate() + KL * metrics["kl_loss"].aggregate()
    assert parts - ENTROPY * metrics["actor/entropy_loss"].aggregate() == pytest.approx(slow, rel=1e-5)
    assert metrics["actor/pg_loss"].aggregation is AggregationType.SUM
    assert metrics["kl_coef"] == KL


@pytest.mark.parametrize("pieces", [[[0, 2], [4, 1], [3, 5]], [[5], [0], [1, 2, 3, 4]], [[4, 3, 2, 1, 0, 5]]])
def test_micro_batches_may_cut_sessions(loss, pieces):
    data = full()
    found = [run(loss, data, rows, 3.0) for rows in pieces]
    slow, slow_gradients = expected(data, [0, 1, 2])
    assert sum(value for value, *_ in found) == pytest.approx(slow, rel=1e-5)
    for _, gradients, _ in found:
        for row, gradient in gradients.items():
            torch.testing.assert_close(gradient, slow_gradients[row], rtol=1e-4, atol=1e-6)


def test_workers_are_averaged_by_verl(loss):
    data = full()
    found = [run(loss, data, rows, 3.0, workers=2) for rows in ([0, 2, 5], [1, 3, 4])]
    assert sum(value for value, *_ in found) / 2 == pytest.approx(expected(data, [0, 1, 2])[0], rel=1e-5)


def test_with_one_row_a_session_it_is_verls_mean_over_rows(loss):
    data = full()
    data[SESSION_TOKENS] = nested([torch.tensor([n]) for n in TOKENS])
    rows = [0, 1, 2, 3, 4]
    value, gradients, metrics = run(loss, data, rows, 5.0)
    verl = partial(ppo_loss, config=actor("seq-mean-token-mean"))
    theirs, their_gradients, their_metrics = run(verl, data, rows, 5.0)
    assert value == pytest.approx(theirs, rel=1e-5)
    for row in rows:
        torch.testing.assert_close(gradients[row], their_gradients[row], rtol=1e-4, atol=1e-6)
    assert metrics.keys() == their_metrics.keys()
    for name in ("actor/pg_clipfrac", "actor/ppo_kl", "actor/pg_clipfrac_lower"):
        assert metrics[name].aggregate() == pytest.approx(their_metrics[name].aggregate(), abs=1e-5), name


def test_it_is_none_of_verls_means_with_several_rows(loss):
    data = full()
    value, *_ = run(loss, data, list(range(6)), 3.0)
    for mode in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum"):
        theirs, *_ = run(partial(ppo_loss, config=actor(mode)), data, list(range(6)), 3.0)
        assert abs(theirs - value) > 0.05


def test_a_mini_batch_with_a_part_of_a_session(loss):
    """Four of the seven tokens of the first session beside all of the second: 4/7 and 1, over 11/7."""
    data = full()
    rows = [0, 2]
    part = tu.index_select_tensor_dict(data, rows)
    assert sessions_in(part) == pytest.approx(4 / 7 + 1)
    _, gradients, _ = run(loss, data, rows, sessions_in(part))
    _, slow = expected(data, [0, 1, 2])
    for row in rows:
        torch.testing.assert_close(gradients[row], slow[row] * 3 / (4 / 7 + 1), rtol=1e-4, atol=1e-6)


def test_masked_rows_alone_add_nothing(loss):
    value, gradients, metrics = run(loss, full(), [5], 3.0)
    assert value == 0
    assert not gradients[5].any()
    assert metrics["actor/pg_loss"].aggregate() == 0
