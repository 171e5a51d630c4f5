from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from docagent_rl.training.settings import divisibility as rules

MINI, MICRO, INFER, TOKENS = "actor.mini", "actor.micro", "rollout.micro", "actor.tokens"
SHARED, GROUP = "actor.sp", "actor.fsdp_size"

NAMES = {
    "batch": (rules.BATCH, 32),
    "n": (rules.TRAJECTORIES, 5),
    "nodes": (rules.NODES, 1),
    "per_node": (rules.PER_NODE, 8),
    "tp": (rules.TENSOR_PARALLEL, 2),
    "mini": (MINI, 16),
    "micro": (MICRO, 2),
    "infer": (INFER, 4),
    "tokens": (TOKENS, 10240),
    "sp": (SHARED, 1),
    "group": (GROUP, -1),
}
"""Keys and values of VRAG-RL on one node of eight."""


def layout(
    dynamic: bool = False, several_rows: bool = False, mean_over_rows: bool = True, **values: int
):
    """Return the sizes of VRAG-RL on one node of eight GPUs, by default with fixed
    micro-batches.
    """
    part = rules.Part(SHARED, GROUP, MINI, MICRO, INFER, (TOKENS, TOKENS), dynamic)
    plain = {rules.SERVER[n]: size for n, size in enumerate((2, 1, 1))}
    plain |= dict(NAMES.values())
    given_values = {NAMES[name][0]: value for name, value in values.items()}
    return rules.Layout(plain | given_values, [part], 10240, several_rows, mean_over_rows)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"dynamic": True, "nodes": 2},
        # servers may span whole nodes
        {"nodes": 2, "tp": 16, "dynamic": True},
        # empty rows matter where the loss counts rows
        {"batch": 24, "dynamic": True, "mean_over_rows": False},
        {"batch": 24, "dynamic": True, "several_rows": True},
        {"batch": 4, "n": 4, "mini": 16, "several_rows": True, "dynamic": True},
    ],
)
def test_sizes_that_go_together(values):
    assert rules.problems(layout(**values)) == []
    assert rules.remedy(layout(**values)) == {}


@pytest.mark.parametrize(
    ("values", "change"),
    [
        # 160 rows over 16 GPUs are 10, and a mini-batch of 80 rows is 5 of them
        ({"nodes": 2, "dynamic": False}, {MICRO: 1}),
        # 5 trajectories of 8 questions are 40 rows; 16 GPUs need 80
        ({"nodes": 2, "mini": 8}, {MINI: 16}),
        ({"per_node": 1}, {rules.TENSOR_PARALLEL: 1}),
        ({"per_node": 6, "tp": 4, "mini": 18, "batch": 36}, {rules.TENSOR_PARALLEL: 3}),
        (
            {"per_node": 8, "tp": 16, "nodes": 3, "mini": 24, "batch": 24},
            {rules.TENSOR_PARALLEL: 8},
        ),
        ({"nodes": 3, "per_node": 4, "tp": 6, "mini": 12, "batch": 36}, {rules.TENSOR_PARALLEL: 4}),
        ({"sp": 3}, {SHARED: 2}),
        ({"group": 3}, {GROUP: -1}),
        # two GPUs share a row, so that each needs room for half of it
        ({"sp": 2, "tokens": 5000}, {TOKENS: 5120}),
        ({"tokens": 10239}, {TOKENS: 10240}),
        # 24 questions are 120 rows: one mini-batch of 80, and 40 empty rows
        ({"batch": 24}, {rules.BATCH: 32}),
    ],
)
def test_every_rule_says_what_to_change(values, change):
    found = layout(**{"dynamic": True, **values})
    assert dict(rules.problems(found)[0].change) == change
    assert rules.problems(found.changed(rules.remedy(found))) == []


def test_trajectories_of_several_rows_fill_a_multiple_of_all_mini_batches():
    # 16 x 4 = 64 rows over 8 GPUs, however many rows the trajectories have
    found = layout(batch=4, n=4, mini=16, micro=4, infer=8, several_rows=True, dynamic=False)
    assert found.multiple == found.rows == 64
    assert rules.problems(found) == []


sizes = {
    "batch": st.integers(1, 64),
    "n": st.integers(1, 8),
    "nodes": st.integers(1, 4),
    "per_node": st.sampled_from([1, 2, 4, 6, 8]),
    "mini": st.integers(1, 64),
    "micro": st.integers(1, 8),
    "infer": st.integers(1, 8),
    "tokens": st.integers(1, 20000),
    "tp": st.integers(1, 16),
    "sp": st.integers(1, 4),
    "group": st.sampled_from([-1, 1, 2, 3, 8]),
}
flags = {name: st.booleans() for name in ("dynamic", "several_rows", "mean_over_rows")}


@given(st.fixed_dictionaries(sizes | flags))
@settings(max_examples=100)
def test_a_remedy_leaves_no_problem(values):
    found = layout(**values)
    assert rules.problems(found.changed(rules.remedy(found))) == []


@given(st.integers(1, 16), st.integers(1, 6), st.integers(1, 8))
def test_rows_are_filled_up_as_verl_fills_them_up(mini, n, workers):
    actor = SimpleNamespace(ppo_mini_batch_size=mini)
    run = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(n=n), actor=actor),
        trainer=SimpleNamespace(critic_warmup=0),
    )
    trainer = SimpleNamespace(config=run, use_critic=False, global_steps=1)
    multiple = PPOTrainer._get_required_batch_multiple(trainer, workers)
    assert layout(mini=mini, n=n, per_node=workers, tp=1).multiple == multiple
