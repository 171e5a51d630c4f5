from __future__ import annotations

import os

import pytest
import ray
import torch

from docagent_rl.advantages.embedder import EmbedderConfig
from docagent_rl.config import TextConfig
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.embedding import SessionEmbedder, prefix_embeddings


def session(*turns: str) -> Trajectory:
    records = [TrajectoryTurn(text, "end_of_turn", [1], []) for text in turns]
    return Trajectory("u", 0, 1, "train", {}, "mm_doc_r1", turns=records)


def test_vectors_are_those_of_what_was_done_before():
    asked = []

    def embed(texts, metrics):
        asked.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    table = prefix_embeddings([session("ab", "c", "d"), session("xyz"), session()], TextConfig(), embed, {})
    assert asked == ["ab", "ab\nc", "ab\nc\nd", "xyz"]
    assert table[..., 0].tolist() == [[0, 2, 4, 6], [0, 3, 3, 3], [0, 0, 0, 0]]


def thread_report(texts):
    """In the place of vectors: torch's threads, and how much is said of GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [[float(torch.get_num_threads()), -1.0 if visible is None else len(visible)] for _ in texts]


@pytest.mark.slow
def test_its_process_has_the_threads_and_no_gpu(monkeypatch):
    """Ray gives an actor of one CPU one thread, and shows it every GPU."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        config = EmbedderConfig(function=f"{__name__}:thread_report")
        embed, numbers = SessionEmbedder(config, "cpu"), {}
        assert embed(["a", "b"], numbers).tolist() == [[2.0, 0.0], [2.0, 0.0]]
        assert numbers == {"docagent/embedded_texts": 2.0, "docagent/embedded_texts_shortened": 0.0}
    finally:
        ray.shutdown()
