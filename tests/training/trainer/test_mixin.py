"""verl's numbers of a step: computed once, and at the end what they are when computed then."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from verl.trainer.ppo.metric_utils import compute_throughout_metrics, compute_timing_metrics

from docagent_rl.training.trainer.archive import INTERRUPTED, read_metrics
from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin

GPUS = 2
LENGTHS = {"prompt_length": torch.tensor([7.0, 5.0]), "response_length": torch.tensor([30.0, 10.0])}
ROWS = SimpleNamespace(batch=LENGTHS, meta_info={"global_token_num": [37, 15]})


class Verl:
    """What of verl's trainer a step calls."""

    computed = 0

    def step(self, metrics, timing_raw):
        metrics["actor/grad_norm"] = 2.0
        timing_raw |= {"gen": 3.0, "update_actor": 4.0}
        return SimpleNamespace(keys=[])

    def _compute_metrics(self, batch, metrics, timing_raw, global_steps, epoch):
        self.computed += 1
        metrics |= {"training/global_step": global_steps, "training/epoch": epoch}
        metrics |= compute_timing_metrics(ROWS, timing_raw)
        metrics |= compute_throughout_metrics(ROWS, timing_raw, GPUS)
        metrics["norm"] = 1 / metrics["actor/grad_norm"]

    def _get_n_gpus_for_throughput(self):
        return GPUS


class Trainer(DocAgentTrainerMixin, Verl):
    global_steps, steps_per_epoch, agent_loop_manager = 3, 2, None

    def __init__(self, run_dir):
        self.docagent = SimpleNamespace(run_dir=run_dir, watch=SimpleNamespace(most_apart=None))

    def _archive(self, batch):
        return {"docagent/turns": 1.0}

    def release_images(self, keys):
        pass


def test_verl_pads_the_rows_of_a_step_once_and_its_numbers_are_those_of_the_end(tmp_path):
    trainer, metrics, timing = Trainer(tmp_path), {}, {}
    batch = trainer.step(metrics, timing)
    begun = read_metrics(tmp_path, 3)
    assert (begun[INTERRUPTED], begun["norm"], begun["training/epoch"]) == (1.0, 0.5, 1.0)
    # as verl goes on: the checkpoint is saved, the step ends, what was said of it is logged
    timing |= {"save_checkpoint": 5.0, "step": 16.0}
    trainer._compute_metrics(batch, metrics, timing, global_steps=3, epoch=1)
    expected = {"actor/grad_norm": 2.0, "docagent/turns": 1.0}
    assert trainer.computed == 1
    Verl()._compute_metrics(batch, expected, timing, 3, 1)
    assert metrics == expected == read_metrics(tmp_path, 3)
