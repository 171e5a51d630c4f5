from __future__ import annotations

import pytest

from docagent_rl.advantages.embedder import EmbedderConfig
from docagent_rl.errors import UserError
from docagent_rl.training.trainer.embedder_place import embedder_place


def node(name, cpus=0, gpus=0, alive=True):
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus)}}


HEAD, WORKER, DEAD = node("head", 4), node("worker", 64, 8), node("dead", 2, 8, alive=False)


def test_without_a_word_it_goes_to_a_gpu_that_is_there():
    """Not to the head, which has none, and would not be told apart by Ray: nothing is booked."""
    place = embedder_place(EmbedderConfig(), "cuda", [HEAD, DEAD, WORKER])
    assert (place.config.device, place.node, place.shares) == ("cuda", "worker", True)
    assert place.variables == {}


def test_what_books_a_gpu_is_placed_by_ray():
    place = embedder_place(EmbedderConfig(num_gpus=1), "cuda", [HEAD, WORKER])
    assert (place.config.device, place.node, place.shares) == ("cuda", None, False)
    assert place.variables == {}


def test_on_the_cpu_it_sees_no_gpu_and_has_threads():
    place = embedder_place(EmbedderConfig(device="cpu"), "cuda", [HEAD, DEAD, WORKER])
    assert (place.config.device, place.config.threads, place.node) == ("cpu", 4, None)
    assert place.variables == {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    assert embedder_place(EmbedderConfig(device="cpu"), "cuda", [WORKER]).config.threads == 16
    assert embedder_place(EmbedderConfig(device="cpu", threads=3), "cuda", [WORKER]).config.threads == 3


def test_a_run_on_the_cpu_embeds_there():
    assert embedder_place(EmbedderConfig(), "cpu", [WORKER]).config.device == "cpu"


def test_a_function_sees_the_gpus_that_it_asks_for():
    config = EmbedderConfig(function="os:getcwd")
    assert embedder_place(config, "cuda", [WORKER]).variables["CUDA_VISIBLE_DEVICES"] == ""
    asked = embedder_place(config.model_copy(update={"device": "cuda:1"}), "cuda", [WORKER])
    assert (asked.variables, asked.node, asked.config.device) == ({}, "worker", "cuda:1")


def test_no_gpu_anywhere_is_one_error():
    with pytest.raises(UserError, match=r"embedder\.device=cuda"):
        embedder_place(EmbedderConfig(device="cuda"), "cuda", [HEAD, DEAD])
