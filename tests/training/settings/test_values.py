import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings.values import CRITIC_VALUES, VALUES, run_value_problems

VRAG, ALDEN = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b"
POLICY, ROLLOUT = "actor_rollout_ref", "actor_rollout_ref.rollout"
ACTOR = f"{POLICY}.actor"
NAN, INF = float("nan"), float("inf")
REFUSED = {
    "data.train_files": [None, [], [None], ""],
    "data.val_files": [None, 3],
    "data.train_batch_size": [0, "four", 2.5, True, None],
    "data.max_prompt_length data.shuffle": [1],
    "data.train_max_samples": [0, -2],
    "data.dataloader_num_workers trainer.critic_warmup critic.cliprange_value critic.optim.lr": [
        -1
    ],
    "data.max_response_length reward.num_workers trainer.nnodes critic.ppo_epochs": [0],
    f"{ROLLOUT}.n {ROLLOUT}.val_kwargs.n {ROLLOUT}.agent.num_workers "
    f"{ROLLOUT}.max_num_batched_tokens": [0],
    f"{ROLLOUT}.tensor_model_parallel_size {ROLLOUT}.log_prob_micro_batch_size_per_gpu": [0],
    f"{ACTOR}.ppo_micro_batch_size_per_gpu {ACTOR}.optim.clip_grad trainer.total_training_steps": [
        0
    ],
    f"{ROLLOUT}.temperature": [0, NAN],
    f"{ROLLOUT}.val_kwargs.temperature {ACTOR}.clip_ratio {ACTOR}.kl_loss_coef": [-0.1],
    f"{ROLLOUT}.top_p": [0, 1.5],
    f"{ROLLOUT}.top_k": [-3],
    f"{ROLLOUT}.gpu_memory_utilization": [0, 80],
    f"{ROLLOUT}.max_model_len": [-1],
    f"{ACTOR}.ppo_mini_batch_size": [None, 0],
    f"{ACTOR}.optim.lr": [NAN, INF, -1],
    f"{ACTOR}.clip_ratio_c": [1],
    "algorithm.gamma algorithm.lam": [1.1, -0.1],
    "trainer.total_epochs": [None],
    "trainer.save_freq": [-2],
    "trainer.resume_mode": ["newest"],
}
"""Values by the keys that cannot have them."""


def named(run) -> list[str]:
    """Return the keys whose values no run can have."""
    return [problem.partition("=")[0] for problem in run_value_problems(run)]


@pytest.mark.parametrize("number", range(max(map(len, REFUSED.values()))))
def test_values_that_no_run_can_have_are_named_and_no_others(recipe, number):
    run = recipe(ALDEN, "critic.enable=true")
    OmegaConf.resolve(run)  # a value changes no other
    assert named(run) == []
    chosen = {keys: values[number] for keys, values in REFUSED.items() if number < len(values)}
    bad = {key: value for keys, value in chosen.items() for key in keys.split()}
    for key, value in bad.items():
        OmegaConf.update(run, key, value)
    assert sorted(named(run)) == sorted(bad)


def test_every_key_has_a_type(recipe):
    run = recipe(ALDEN, "critic.enable=true")
    OmegaConf.set_struct(run, False)
    keys = [
        f"{section}.{key}"
        for types in (VALUES, CRITIC_VALUES)
        for section, of_section in types.items()
        for key in of_section
    ]
    for key in keys:
        OmegaConf.update(run, key, {}, merge=False)
    assert named(run) == keys


def test_values_of_a_critic_are_free_where_there_is_none(recipe):
    assert named(recipe(VRAG, "critic.ppo_epochs=0", "critic.enable=false")) == []
