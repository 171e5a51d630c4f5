import pytest
import torch

from benchmarks import log_probs, spo, turn_gae, vision
from docagent_rl.advantages.gae import token_gae
from docagent_rl.advantages.inputs import Discounts
from docagent_rl.advantages.spo import similarity_advantages


def test_both_compute_the_same_gae():
    batch = turn_gae.trajectories(16, 400, 4, 24, seed=2)
    for found, want in zip(
        turn_gae.ours(batch, token_gae, Discounts()), turn_gae.verl_gae(batch), strict=True
    ):
        torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("way", "size"), [(spo.loop, 4), (spo.loop, 7), (spo.matmul, 3), (spo.matmul, 10)]
)
def test_all_ways_compute_the_same_spo(size, way):
    batch = spo.trajectories(30, size, 16, seed=3)
    torch.testing.assert_close(similarity_advantages(*batch), way(*batch), atol=1e-6, rtol=1e-6)


def test_both_compute_the_same_log_probs():
    logits, labels = torch.randn(30, 17), torch.randint(17, (30,))
    found = log_probs.both_passes(log_probs.log_probs_of_labels, logits, labels)
    stock = log_probs.both_passes(log_probs.verl_functional.logprobs_from_logits_v2, logits, labels)
    assert found == pytest.approx(stock, rel=1e-5)
    assert found[0] == pytest.approx(
        float(logits.log_softmax(1)[range(30), labels].sum()), rel=1e-5
    )


@pytest.mark.parametrize("tower_only", [False, True])
def test_passes_with_shared_pages_compute_the_same(tower_only):
    model = vision.build_model(width=80, depth=2, hidden=128, layers=1)
    rows = vision.make_rows(3, 2, 16)
    passes = vision.Passes(model, rows, tower_only=tower_only)
    tokens = []
    model.model.visual.merger.register_forward_hook(lambda *_: tokens.append(len(_[2])))
    for frozen, ours in ((False, 3 * 8), (True, 8)):
        wanted = passes.upstream(frozen=frozen)
        assert sum(tokens) == 3 * 3 * 8
        tokens.clear()
        assert passes.ours(frozen=frozen) == pytest.approx(wanted, rel=1e-5)
        assert sum(tokens) == ours
        tokens.clear()
