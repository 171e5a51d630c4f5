"""Configurations of EasyR1 become recipes that Hydra composes and `recipes check` accepts."""

from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import check_recipe, composed_recipe
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.commands.recipes import app
from docagent_rl.lab.easyr1.conversions import ACTOR, ROLLOUT
from docagent_rl.lab.easyr1.recipe import nearest_recipe
from docagent_rl.lab.easyr1.translation import (
    Easyr1Config,
    Translation,
    known_keys,
    read_config,
    translate,
)
from tests.commands.conftest import called

VL = "Qwen/Qwen2.5-VL-7B-Instruct"
ENGINE = f"{ACTOR}.fsdp_config"
MICRO = "worker.actor.micro_batch_size_per_device_for"
GRPO = f"""
data:
  train_files: hiyouga/geometry3k@train
  prompt_key: problem
  max_prompt_length: 2048
  max_response_length: 1536
  rollout_batch_size: 128
  val_batch_size: -1
  format_prompt: math.jinja
  shuffle: false
algorithm: {{adv_estimator: grpo, use_kl_loss: true, kl_penalty: low_var_kl, kl_coef: 1e-2}}
worker:
  actor:
    global_batch_size: 64
    micro_batch_size_per_device_for_update: 4
    micro_batch_size_per_device_for_experience: 8
    model: {{model_path: {VL}, freeze_vision_tower: false}}
    optim: {{lr: 2.0e-6, strategy: adamw_bf16}}
    offload: {{offload_params: true, offload_optimizer: true}}
  rollout:
    n: 4
    gpu_memory_utilization: 0.5
    disable_tqdm: false
    val_override_config: {{temperature: 0.6, top_p: 0.95, n: 1}}
trainer:
  max_steps: 50
  logger: [file]
  n_gpus_per_node: 8
  save_limit: 3
  find_last_checkpoint: false
"""


def written(folder: Path, text: str, *overrides: str, name: str = "mine") -> str:
    """Write a recipe and return what the command printed, with single spaces."""
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    out = folder / f"{name}.yaml"
    printed = called(app, "from-easyr1", folder / "config.yaml", *overrides, "--out", out)
    return " ".join(printed.output.split())


def translated(folder: Path, text: str, *overrides: str) -> Translation:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    config = read_config(folder / "config.yaml", overrides)
    base = OmegaConf.create({"data": {"max_prompt_length": 1000, "max_response_length": 9000}})
    return translate(config, "vrag_rl_qwen2_5_vl_7b", base)


def test_a_recipe_is_composed_and_passes_the_checks(tmp_path):
    written(tmp_path, GRPO)
    assert [each.problem for each in check_recipe("mine", tmp_path, ablations=[])] == [None, None]
    found = composed_recipe(str(tmp_path / "mine.yaml"))
    actor, rollout = found.actor_rollout_ref.actor, found.actor_rollout_ref.rollout
    # the system and its lengths are those of the recipe below
    assert found.docagent.system == "vrag_rl"
    assert (found.data.max_prompt_length, found.data.max_response_length) == (1024, 9216)
    assert found.docagent.rollout.turn_tokens == 1536
    assert (found.data.train_batch_size, actor.ppo_mini_batch_size, rollout.n) == (128, 64, 4)
    assert found.data.val_batch_size is None
    assert found.data.shuffle is False
    assert found.algorithm.adv_estimator == "trajectory_grpo"
    assert (actor.use_kl_loss, actor.kl_loss_coef, actor.kl_loss_type) == (True, 0.01, "low_var_kl")
    assert found.algorithm.use_kl_in_reward is False
    # EasyR1's defaults
    assert (actor.clip_ratio_high, actor.clip_ratio_c) == (0.3, 3.0)
    assert actor.loss_agg_mode == "token-mean"
    assert actor.optim.lr_warmup_steps_ratio == 0.0
    assert actor.optim.lr == 2e-6
    # 4 rows of 2048 + 1536 tokens; 8 of them
    assert actor.ppo_max_token_len_per_gpu == 14336
    assert rollout.log_prob_max_token_len_per_gpu == 28672
    assert actor.fsdp_config.param_offload is True
    sampling = rollout.val_kwargs
    assert (sampling.temperature, sampling.top_p, sampling.n) == (0.6, 0.95, 1)
    assert sampling.do_sample is True
    trainer = found.trainer
    assert (trainer.total_training_steps, trainer.logger) == (50, ["file"])
    assert (trainer.max_actor_ckpt_to_keep, trainer.resume_mode) == (3, "disable")
    assert found.critic.enable is not True


def test_what_is_not_carried_over_is_printed(tmp_path):
    printed = written(tmp_path, GRPO, "trainer.max_stepz=3")
    carried, elsewhere = printed.split("Another meaning or place here")
    elsewhere, without = elsewhere.split("Without a counterpart")
    assert "data.rollout_batch_size=128" in carried
    assert "worker.actor.clip_ratio_high=0.3 (EasyR1's default)" in carried
    assert "data.max_prompt_length=2048" in without
    for key in ("data.train_files", "data.prompt_key", "data.format_prompt"):
        assert key in elsewhere
    assert "--prompt-key" in elsewhere
    assert "worker.rollout.disable_tqdm=false" in without
    assert "worker.actor.optim.strategy=adamw_bf16" in without
    assert "did you mean trainer.max_steps?" in without
    assert "on top of vrag_rl_qwen2_5_vl_7b (the nearest to" in without


def test_a_recipe_with_a_critic(tmp_path):
    critic = f"worker.critic.model.model_path={VL}"
    written(tmp_path, GRPO, "algorithm.adv_estimator=gae", "worker.rollout.n=1", critic)
    assert [each.problem for each in check_recipe("mine", tmp_path, ablations=[])] == [None, None]
    found = composed_recipe(str(tmp_path / "mine.yaml"))
    assert (found.docagent.system, found.algorithm.adv_estimator) == ("alden", "token_gae")
    assert found.critic.enable is True
    assert found.docagent.kl.observation.coef == 0
    # EasyR1's defaults of a critic
    assert (found.critic.optim.lr, found.critic.ppo_mini_batch_size) == (1e-6, 256)


def test_a_text_model_and_the_kl_in_the_reward(tmp_path):
    model = "worker.actor.model.model_path=models/Qwen3-4B/"
    kl = ("algorithm.use_kl_loss=false", "algorithm.kl_type=adaptive")
    written(tmp_path, GRPO, model, "algorithm.adv_estimator=rloo", *kl)
    assert [each.problem for each in check_recipe("mine", tmp_path, ablations=[])] == [None, None]
    found = composed_recipe(str(tmp_path / "mine.yaml"))
    assert (found.docagent.system, found.algorithm.adv_estimator) == ("mm_doc_r1", "rloo")
    assert found.actor_rollout_ref.actor.use_kl_loss is False
    assert found.algorithm.use_kl_in_reward is True
    control = found.algorithm.kl_ctrl
    assert (control.kl_coef, control.type) == (0.01, "adaptive")


def test_a_reward_function_is_the_only_reward(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "def scored(reward_inputs, scale=1.0):\n"
        "    return [{'overall': scale * (each['response'] == each['ground_truth'])}\n"
        "            for each in reward_inputs]\n"
    )
    monkeypatch.chdir(tmp_path)
    function = "worker.reward.reward_function=./mine.py:scored"
    scale = "worker.reward.reward_function_kwargs.scale=2.0"
    filters = ("algorithm.online_filtering=true", "algorithm.filter_key=accuracy")
    written(tmp_path, GRPO, function, scale, *filters)
    assert [each.problem for each in check_recipe("mine", tmp_path, ablations=[])] == [None, None]
    found = composed_recipe(str(tmp_path / "mine.yaml"))
    named = found.reward.custom_reward_function
    assert (named.path, named.name) == (str(tmp_path / "mine.py"), "scored")
    assert named.reward_kwargs == {"scale": 2.0}
    assert found.docagent.reward_function.mode == "replace"
    filtering = found.algorithm.filter_groups
    assert (filtering.enable, filtering.metric) == (True, "reward/scored.accuracy")


def test_a_file_of_alden_s_copy_is_built_on_alden(tmp_path):
    text = f"""
data: {{max_prompt_length: 2500, max_response_length: 18000}}
algorithm: {{adv_estimator: bi_level_gae, use_kl_loss: true, kl_coef: 1e-3, turn_level_gamma: 0.8}}
worker:
  actor: {{global_batch_size: 128, model: {{model_path: {VL}}}}}
  critic: {{global_batch_size: 128, model: {{model_path: {VL}}}, optim: {{lr: 1.0e-5}}}}
  rollout: {{n: 1, max_turn_num: 5, top_n: 2, search_url: "http://127.0.0.1:1"}}
trainer: {{total_episodes: 3}}
"""
    printed = written(tmp_path, text, "data.rollout_batch_size=128")
    assert "worker.rollout.search_url" in printed
    assert [each.problem for each in check_recipe("mine", tmp_path, ablations=[])] == [None, None]
    found = composed_recipe(str(tmp_path / "mine.yaml"))
    assert (found.docagent.system, found.algorithm.adv_estimator) == ("alden", "turn_gae")
    assert found.docagent.advantage.gamma_turn == 0.8
    assert (found.docagent.env.max_turns, found.docagent.env.search.top_k) == (5, 2)
    assert (found.data.max_prompt_length, found.data.max_response_length) == (2500, 18000)
    assert found.actor_rollout_ref.rollout.max_model_len == 20500
    # what the file leaves out is as in ALDEN's recipe
    assert found.actor_rollout_ref.actor.loss_agg_mode == "seq-mean-token-mean"
    assert found.docagent.kl.observation.coef == 0.01
    assert found.trainer.total_epochs == 3


def test_the_file_has_only_what_differs(tmp_path):
    written(tmp_path, GRPO)
    text = (tmp_path / "mine.yaml").read_text()
    assert text.startswith(
        "# python -m verl.trainer.main_ppo --config-dir FOLDER --config-name mine"
    )
    content = yaml.safe_load(text)
    assert content.pop("defaults") == ["vrag_rl_qwen2_5_vl_7b", "_self_"]
    below = composed_recipe("vrag_rl_qwen2_5_vl_7b")
    own = [key for key, _ in leaves(content)]
    assert "trainer.nnodes" not in own
    for key, value in leaves(content):
        assert OmegaConf.select(below, key, default="missing") != value, key


def leaves(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("data.val_batch_size=256", "data.val_batch_size", 256),
        ("worker.rollout.dtype=fp16", f"{ROLLOUT}.dtype", "float16"),
        ("worker.actor.loss_avg_mode=seq", f"{ACTOR}.loss_agg_mode", "seq-mean-token-mean"),
        ("worker.actor.loss_type=cispo", f"{ACTOR}.policy_loss.loss_mode", "cispo"),
        ("worker.actor.ulysses_size=2", f"{ENGINE}.ulysses_sequence_parallel_size", 2),
        ("trainer.save_limit=-1", "trainer.max_actor_ckpt_to_keep", None),
        ("trainer.val_freq=7", "trainer.test_freq", 7),
        ("trainer.save_model_only=true", "critic.checkpoint.save_contents", ["model"]),
        ("algorithm.disable_kl=true", f"{ACTOR}.use_kl_loss", False),
        ("algorithm.disable_kl=true", "algorithm.use_kl_in_reward", False),
        ("worker.rollout.val_override_config.top_k=5", f"{ROLLOUT}.val_kwargs.top_k", 5),
        ("worker.actor.fsdp.mp_reduce_dtype=bf16", f"{ENGINE}.mixed_precision.param_dtype", "bf16"),
        ("worker.actor.fsdp.torch_dtype=bf16", f"{ENGINE}.model_dtype", "bfloat16"),
        # a row of 3,584 tokens there is shorter than the longest row here
        (f"{MICRO}_update=1", f"{ACTOR}.ppo_max_token_len_per_gpu", 10000),
    ],
)
def test_conversions(tmp_path, override, key, value):
    assert translated(tmp_path, GRPO, override).changes[key] == value


def test_rows_stay_rows_without_dynamic_batching(tmp_path):
    changes = translated(tmp_path, GRPO, "worker.actor.dynamic_batching=false").changes
    assert changes["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == 4
    assert changes["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"] == 8
    assert "actor_rollout_ref.actor.ppo_max_token_len_per_gpu" not in changes


def test_adapters_need_a_rank(tmp_path):
    names = "worker.actor.model.lora.target_modules='q_proj, v_proj'"
    assert not any("lora" in key for key in translated(tmp_path, GRPO, names).changes)
    changes = translated(tmp_path, GRPO, names, "worker.actor.model.lora.rank=16").changes
    model = "actor_rollout_ref.model"
    assert (changes[f"{model}.lora_rank"], changes[f"{model}.lora_alpha"]) == (16, 64)
    assert changes[f"{model}.target_modules"] == ["q_proj", "v_proj"]


@pytest.mark.parametrize(
    "override",
    [
        "algorithm.adv_estimator=remax",
        "algorithm.kl_penalty=full",
        "worker.actor.loss_type=other",
        "worker.rollout.top_n=3",
    ],
)
def test_values_without_a_counterpart(tmp_path, override):
    key, _, value = override.partition("=")
    without = translated(tmp_path, GRPO, override).without
    ((reason, given),) = [(why, given) for name, given, why in without if name == key]
    assert str(given) == value
    assert len(reason) > 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- a\n", "expected EasyR1's sections"),
        ("data: {rollout_batch_size: many}\n", "data.rollout_batch_size='many': expected a number"),
        ("data: {shuffle: 3}\n", "data.shuffle=3: expected true or false"),
        ("worker: {rollout: {val_override_config: 3}}\n", "expected a mapping"),
        ("data: [\n", "cannot be read"),
        ("data: {seed: '${gone}'}\n", "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_one_clear_error(tmp_path, text, reason):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=reason.replace("[", r"\[")) as error:
        read_config(tmp_path / "config.yaml")
    assert "config.yaml" in str(error.value)


def test_other_files_are_not_replaced(tmp_path):
    (tmp_path / "mine.yaml").write_text("mine: 1\n")
    with pytest.raises(UserError, match="--force"):
        written(tmp_path, GRPO)
    for name in ("mine", "my recipe"):
        out = tmp_path / (f"{name}.yaml" if " " in name else name)
        with pytest.raises(UserError):
            called(app, "from-easyr1", tmp_path / "config.yaml", "--out", out)


@pytest.mark.parametrize(
    ("model", "estimator", "recipe"),
    [
        ("Qwen/Qwen2.5-VL-3B-Instruct", "grpo", "vrag_rl_qwen2_5_vl_3b"),
        ("/models/Qwen2.5-VL-7B-Instruct/", "rloo", "vrag_rl_qwen2_5_vl_7b"),
        ("Qwen/Qwen3-VL-8B-Instruct", "grpo", "vrag_rl_qwen3_vl_8b"),
        ("Qwen/Qwen3-VL-8B-Instruct", "gae", "alden_qwen3_vl_8b"),
        ("Qwen/Qwen3-VL-30B-A3B-Instruct", "grpo", "vrag_rl_qwen3_vl_30b_a3b"),
        ("Qwen/Qwen3-4B", "grpo", "mm_doc_r1_qwen3_4b_grpo"),
        ("Qwen/Qwen3-14B", "grpo", "mm_doc_r1_qwen3_4b_grpo"),
        ("Qwen/Qwen2.5-7B-Instruct", "gae", "mm_doc_r1_qwen3_4b_grpo"),
        ("Qwen/Qwen3.5-9B", "grpo", "vrag_rl_qwen3_5_9b"),
        ("/models/my_own", "grpo", "vrag_rl_qwen2_5_vl_3b"),
        (None, "grpo", "vrag_rl_qwen2_5_vl_3b"),
    ],
)
def test_the_nearest_recipe(model, estimator, recipe):
    values = {"worker.actor.model.model_path": model, "algorithm.adv_estimator": estimator}
    values = {**known_keys().defaults, **values}
    config = Easyr1Config(Path("config.yaml"), {}, values, {}, is_alden=False)
    assert nearest_recipe(config, recipe_names()) == recipe
