from __future__ import annotations

import pytest

from docagent_rl.advantages.embedder import EmbedderConfig
from docagent_rl.errors import UserError
from docagent_rl.training.trainer.embedder_place import embedder_place


def node(name, cpus=0, gpus=0, alive=True):
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus)}}


HEAD, WORKER, DEAD = node("head", 4), node("worker", 64, 8), node("dead", 2, 8, alive=False)
ALL = [HEAD, DEAD, WORKER]


@pytest.mark.parametrize(
    ("config", "run", "device", "on", "shares"),
    [
        # not to the head, which has no GPU, and would not be told apart by Ray: nothing is booked
        ({}, "cuda", "cuda", "worker", True),
        # Ray places what books one
        ({"num_gpus": 1}, "cuda", "cuda", None, False),
        ({}, "cpu", "cpu", None, False),
        ({"function": "os:getcwd", "device": "cuda:1"}, "cuda", "cuda:1", "worker", True),
    ],
)
def test_where_it_goes(config, run, device, on, shares):
    place = embedder_place(EmbedderConfig(**config), run, ALL)
    assert (place.config.device, place.node, place.shares) == (device, on, shares)
    assert (place.variables == {}) == (device != "cpu")


def test_on_the_cpu_it_sees_no_gpu_and_has_threads():
    place = embedder_place(EmbedderConfig(device="cpu"), "cuda", ALL)
    assert (place.config.device, place.config.threads, place.node) == ("cpu", 4, None)
    assert place.variables == {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    assert embedder_place(EmbedderConfig(device="cpu"), "cuda", [WORKER]).config.threads == 16
    assert embedder_place(EmbedderConfig(device="cpu", threads=3), "cuda", [WORKER]).config.threads == 3
    function = embedder_place(EmbedderConfig(function="os:getcwd"), "cuda", [WORKER])
    assert function.variables["CUDA_VISIBLE_DEVICES"] == ""


def test_no_gpu_anywhere_is_one_error():
    with pytest.raises(UserError, match=r"embedder\.device=cuda"):
        embedder_place(EmbedderConfig(device="cuda"), "cuda", [HEAD, DEAD])
