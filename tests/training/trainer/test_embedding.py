"""Texts of trajectories, their vectors, and the place where these are computed."""

import pytest
import torch

from docagent_rl.advantages.embedder import EmbedderConfig
from docagent_rl.base.errors import UserError
from docagent_rl.config import TextConfig, TrajectoryText
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.embedding import THREADS, embedder_place
from docagent_rl.training.trainer.inputs import prefix_embeddings


def node(name, cpus=0, gpus=0, alive=True):
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": float(cpus), "GPU": float(gpus)}}


NODE = "ab" * 28
HEAD, WORKER, DEAD = node("head", 4), node(NODE, 64, 8), node("dead", 2, 8, alive=False)
ALL = [HEAD, DEAD, WORKER]


@pytest.mark.parametrize(
    ("config", "run", "device", "on", "shares"),
    [
        # not to the head, which has no GPU, and would not be told apart by Ray: nothing is booked
        ({}, "cuda", "cuda", NODE, True),
        # Ray places what books one
        ({"num_gpus": 1}, "cuda", "cuda", None, False),
        ({}, "cpu", "cpu", None, False),
        ({"function": "os:getcwd", "device": "cuda:1"}, "cuda", "cuda:1", NODE, True),
    ],
)
def test_where_it_goes(config, run, device, on, shares):
    settled, options = embedder_place(EmbedderConfig(**config), run, ALL)
    assert settled.device == device
    assert (options["scheduling_strategy"].node_id if shares else None) == on
    assert ("scheduling_strategy" in options, "runtime_env" in options) == (shares, device == "cpu")


@pytest.mark.parametrize(
    ("config", "nodes", "threads"),
    [
        ({}, ALL, 4),
        ({}, [WORKER], 16),
        ({"threads": 3}, [WORKER], 3),
        ({"function": "os:getcwd"}, ALL, 4),
    ],
)
def test_on_the_cpu_it_sees_no_gpu_and_has_threads(config, nodes, threads):
    settled, options = embedder_place(EmbedderConfig(device="cpu", **config), "cuda", nodes)
    assert (settled.device, settled.threads, options.keys()) == ("cpu", threads, {"runtime_env"})
    variables = {"CUDA_VISIBLE_DEVICES": "", **dict.fromkeys(THREADS, str(threads))}
    assert options["runtime_env"]["env_vars"] == variables


def test_no_gpu_anywhere_is_one_error():
    with pytest.raises(UserError, match=r"embedder\.device=cuda"):
        embedder_place(EmbedderConfig(device="cuda"), "cuda", [HEAD, DEAD])


def trajectory(*turns: str) -> Trajectory:
    samples = [TrajectoryTurn(text, "end_of_turn", [1], []) for text in turns]
    return Trajectory("u", 0, 1, "train", {}, "mm_doc_r1", turns=samples)


def test_vectors_are_those_of_what_was_done_before():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return torch.tensor([[float(len(text)), 1.0] for text in texts])

    played = (trajectory("ab", "c", "d"), trajectory("xyz"), trajectory())
    table = prefix_embeddings([TrajectoryDigest.of(each) for each in played], embed)
    assert asked == ["ab", "ab\nc", "ab\nc\nd", "xyz"]
    assert table[..., 0].tolist() == [[0, 2, 4, 6], [0, 3, 3, 3], [0, 0, 0, 0]]


SEARCH, ANSWER = "<search>tax</search>", "<answer>9</answer>"


def searched(text: str | None = None) -> Trajectory:
    search = TrajectoryTurn(f" {SEARCH}", "end_of_turn", [1], [])
    answer = TrajectoryTurn(ANSWER, "end_of_turn", [2], [])
    return Trajectory("u", 0, 1, "train", {}, "alden", turns=[search, answer], text=text)


@pytest.mark.parametrize(
    ("source", "options", "changes", "expected"),
    [
        ("actions", {}, {"text": "what it did"}, f"{SEARCH}\n{ANSWER}"),
        ("environment", {}, {}, f"{SEARCH}\n{ANSWER}"),
        ("environment", {}, {"text": "what it did"}, "what it did"),
        ("actions", {"include_answer": False}, {}, SEARCH),
    ],
)
def test_text_of_a_trajectory(source, options, changes, expected):
    config = TextConfig(source=TrajectoryText(source), **options)
    assert TrajectoryDigest.of(searched(**changes), config).text == expected


def test_the_environments_text_of_a_turn_stands_for_it():
    made = trajectory("a", "b")
    made.turns[1].info = {"text": "the second"}
    own = TextConfig(source=TrajectoryText.ENVIRONMENT)
    for config, texts in ((own, ["a", "the second"]), (None, ["a", "b"])):
        assert [turn.text for turn in TrajectoryDigest.of(made, config).turns] == texts
