import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings.keys import (
    CRITIC_VALUES,
    VALUES,
    key_problems,
    mode_problems,
    reference,
    run_value_problems,
    tracker_problems,
)

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
    "data.dataloader_num_workers trainer.critic_warmup critic.cliprange_value critic.optim.lr": [-1],
    "data.max_response_length reward.num_workers trainer.nnodes critic.ppo_epochs": [0],
    f"{ROLLOUT}.n {ROLLOUT}.val_kwargs.n {ROLLOUT}.agent.num_workers {ROLLOUT}.max_num_batched_tokens": [0],
    f"{ROLLOUT}.tensor_model_parallel_size {ROLLOUT}.log_prob_micro_batch_size_per_gpu": [0],
    f"{ACTOR}.ppo_micro_batch_size_per_gpu {ACTOR}.optim.clip_grad trainer.total_training_steps": [0],
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
    """Keys of values that no run can have."""
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
    for key in {**VALUES, **CRITIC_VALUES}:
        OmegaConf.update(run, key, {}, merge=False)
    assert named(run) == [*VALUES, *CRITIC_VALUES]


def test_values_of_a_critic_are_free_where_there_is_none(recipe):
    assert named(recipe(VRAG, "critic.ppo_epochs=0", "critic.enable=false")) == []


def test_trainer_modes(recipe):
    for mode in ("docagent_separate_async", "sync", "colocate_async"):
        assert not list(mode_problems(recipe(VRAG, f"trainer.v1.trainer_mode={mode}")))
    for mode in ("docagent_asynchronous", "null"):
        (problem,) = mode_problems(recipe(VRAG, f"trainer.v1.trainer_mode={mode}"))
        assert "docagent_sync, " in problem


def unknown(config) -> list[str]:
    return list(key_problems(OmegaConf.create(config)))


def test_trackers(recipe, tmp_path, monkeypatch):
    def found(names, *, installed):
        return list(tracker_problems(OmegaConf.create({"trainer": {"logger": names}}), installed=installed))

    assert list(tracker_problems(recipe(VRAG), installed=True)) == []
    assert found("console", installed=True) == []
    assert found(["console", "mlflow"], installed=False) == []
    (tmp_path / "mlflow").mkdir()  # as a tracker's own folder of runs
    monkeypatch.syspath_prepend(tmp_path)
    (problem,) = found(["console", "mlflow"], installed=True)
    assert "pip install mlflow" in problem
    (problem,) = found(["wandb", "consol"], installed=False)
    assert "did you mean console?" in problem
    (problem,) = found(None, installed=True)
    assert "no tracker None" in problem
    (problem,) = found(["tracking"], installed=True)
    assert "write wandb" in problem
    (problem,) = found(["zzz"], installed=False)
    assert "it has wandb" in problem


def test_unknown_keys_are_named_with_the_nearest_known_one():
    config = {"trainer": {"sav_freq": 1}, "dta": {}, "actor_rollout_ref": {"ref": {"strateg": 1}}}
    nearest = ("trainer.save_freq", "data", "actor_rollout_ref.ref.strategy")
    keys = ("trainer.sav_freq", "dta", "actor_rollout_ref.ref.strateg")
    for line, key, known in zip(unknown(config), keys, nearest, strict=True):
        assert line.startswith(f"{key}: ")
        assert known in line


def test_verls_own_fields_of_its_dataclasses_and_free_sections_are_known():
    """`agent_loop_manager_class` is a field of verl's AgentLoopConfig that its YAML leaves out."""
    assert unknown(reference()) == []
    agent, vllm = {"agent_loop_manager_class": "x"}, {"seed": 1}
    rollout = {"agent": agent, "engine_kwargs": {"vllm": vllm}}
    config = {"docagent": {"anything": 1}, "ray_kwargs": {"ray_init": {"num_gpus": 1}}}
    assert unknown({**config, "actor_rollout_ref": {"rollout": rollout}}) == []
