from __future__ import annotations

import pytest
import torch
import typer

from benchmarks import log_probs, spo, turn_gae
from benchmarks.bill import FEATURES, RENDER, STORE, Bill
from benchmarks.common import best_times
from docagent_rl.advantages.inputs import Discounts
from docagent_rl.advantages.spo import similarity_advantages
from docagent_rl.advantages.token_gae import token_gae


def test_rows_are_as_described():
    batch = turn_gae.trajectories(20, 500, 4, 24, seed=1)
    assert batch["mask"].shape == (20, 500)
    assert batch["mask"].dtype == torch.int64
    for turn in range(4):
        lengths = (batch["turn_index"] == turn).sum(1)
        assert bool(((lengths >= 20) & (lengths <= 28)).all())
    assert (batch["token_rewards"] > 0).sum() == 80
    assert bool((batch["mask"][batch["token_rewards"] > 0] == 1).all())
    ends = torch.cat([batch["mask"], torch.zeros(20, 1, dtype=torch.int64)], 1).diff() == -1
    assert bool((ends[batch["token_rewards"][:, :500] > 0]).all())
    with pytest.raises(typer.BadParameter, match="do not fit"):
        turn_gae.trajectories(1, 100, 4, 24, seed=1)


def test_both_compute_the_same_gae():
    batch = turn_gae.trajectories(16, 400, 4, 24, seed=2)
    for found, want in zip(
        turn_gae.ours(batch, token_gae, Discounts()), turn_gae.verl_gae(batch), strict=True
    ):
        torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("way", "size"), [(spo.loop, 4), (spo.loop, 7), (spo.matmul, 3), (spo.matmul, 10)])
def test_all_ways_compute_the_same_spo(size, way):
    batch = spo.sessions(30, size, 16, seed=3)
    torch.testing.assert_close(similarity_advantages(*batch), way(*batch), atol=1e-6, rtol=1e-6)


def test_both_compute_the_same_log_probs():
    logits, labels = torch.randn(30, 17), torch.randint(17, (30,))
    found = log_probs.both_passes(log_probs.log_probs_of_labels, logits, labels)
    stock = log_probs.both_passes(log_probs.verl_functional.logprobs_from_logits_v2, logits, labels)
    assert found == pytest.approx(stock, rel=1e-5)
    assert found[0] == pytest.approx(float(logits.log_softmax(1)[range(30), labels].sum()), rel=1e-5)


@pytest.mark.parametrize(("cpu", "clock"), [(False, "perf_counter"), (True, "process_time")])
def test_times_are_those_of_the_best_round(monkeypatch, cpu, clock):
    now, rounds = [0.0], [9.0, 2.0, 5.0]
    monkeypatch.setattr(f"benchmarks.common.time.{clock}", lambda: now[0])

    def work() -> int:
        now[0] += rounds.pop(0)
        return len(rounds)

    assert best_times({"work": work}, repeats=3, cpu=cpu) == ({"work": 2.0}, {"work": 0})


def test_parts_add_up_and_grow():
    bill = Bill()
    bill.add(RENDER, 1.0, 100)
    bill.add(RENDER, 0.5)
    bill.add(STORE, 2.0, 300)
    bill.add(FEATURES, 4.0)
    assert bill.seconds() == 7.5
    assert bill.seconds(features=False) == 3.5
    assert bill.nbytes == 400
    grown = bill.times(64)
    assert grown.part(RENDER).seconds == 96
    assert grown.nbytes == 64 * 400
    assert bill.nbytes == 400
