from collections import Counter

import pytest

from docagent_rl.training.serving.requests import SHARES, route, servers_of

VRAG = "vrag_rl_qwen2_5_vl_7b"


def names(trajectories, prompts, servers):
    return {
        (q, s): route(f"q{q}", s, trajectories=trajectories, prompts=prompts, servers=servers)
        for q in range(prompts)
        for s in range(trajectories)
    }


def test_the_trajectories_of_a_question_stay_together():
    found = names(trajectories=8, prompts=64, servers=8)
    assert all(len({found[q, s] for s in range(8)}) == 1 for q in range(64))
    assert len(set(found.values())) == 64


@pytest.mark.parametrize(
    ("trajectories", "prompts", "servers"), [(16, 4, 8), (8, 8, 8), (5, 3, 4), (1, 2, 8)]
)
def test_few_questions_are_split_so_that_no_server_stands_idle(trajectories, prompts, servers):
    found = names(trajectories, prompts, servers)
    assert len(set(found.values())) >= min(SHARES * servers, trajectories * prompts)
    sizes = Counter(found.values())
    assert max(sizes.values()) <= max(1, trajectories * prompts // (SHARES * servers))
    questions = {name: {q for (q, _), each in found.items() if each == name} for name in sizes}
    assert all(len(each) == 1 for each in questions.values())


@pytest.mark.parametrize(
    ("overrides", "servers"),
    [
        (("trainer.n_gpus_per_node=8", "trainer.nnodes=2"), 16),
        (
            ("trainer.n_gpus_per_node=8", "actor_rollout_ref.rollout.tensor_model_parallel_size=2"),
            4,
        ),
        (("actor_rollout_ref.rollout.nnodes=1", "actor_rollout_ref.rollout.n_gpus_per_node=4"), 4),
    ],
)
def test_servers_of_a_run(recipe, overrides, servers):
    plain = ("actor_rollout_ref.rollout.tensor_model_parallel_size=1",)
    assert servers_of(recipe(VRAG, *plain, *overrides, cpu=False)) == servers
