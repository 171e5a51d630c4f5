"""Every key of EasyR1, with what becomes of it here: data, algorithm and trainer.

The keys of the workers are in `worker_table`. A test compares both with EasyR1's dataclasses
(`easyr1_keys.yaml`).
"""

from collections.abc import Mapping
from functools import cache

from docagent_rl.lab.easyr1.conversions import (
    estimator,
    filter_key,
    kl_coef,
    kl_penalty,
    kl_place,
    no_limit,
    prompt_length,
    response_length,
    save_model_only,
)
from docagent_rl.lab.easyr1.entry import KeyTranslation, converted, elsewhere, none, same
from docagent_rl.lab.easyr1.worker_table import WORKER

_CONVERT = "rows are converted once, by docagent-rl data convert: its option"
_VIDEOS = "documents are pages, and videos are not read: leave such rows out"
_PIXELS = (
    "the size at which a page is shown; every page stays in the context of its trajectory, so the "
    "recipe's value stays"
)
_BOUNDS = (
    "a group is dropped if all its numbers are equal, not if their mean is out of bounds: for "
    "rewards of 0 and 1 that is the same"
)

DATA = (
    elsewhere(
        "data.train_files",
        "convert it: docagent-rl data convert FILE --store WORKSPACE/store --out "
        "WORKSPACE/data/train.parquet",
        "data.train_files",
    ),
    elsewhere(
        "data.val_files",
        "convert it: docagent-rl data convert FILE --store WORKSPACE/store --out "
        "WORKSPACE/data/val.parquet",
        "data.val_files",
    ),
    elsewhere("data.prompt_key", f"{_CONVERT} --prompt-key"),
    elsewhere("data.answer_key", f"{_CONVERT} --answer-key"),
    elsewhere("data.image_key", f"{_CONVERT} --image-key"),
    elsewhere("data.image_dir", f"{_CONVERT} --image-dir"),
    none("data.video_key", _VIDEOS),
    none("data.video_fps", _VIDEOS),
    converted(
        "data.max_prompt_length",
        prompt_length,
        "the prompt here has the system's rules and the question, and images only come with "
        "observations: the recipe's value stays, except for ALDEN's copy, which means the same",
        "data.max_prompt_length",
    ),
    converted(
        "data.max_response_length",
        response_length,
        "one reply of the model is one turn here; data.max_response_length has room for all turns "
        "and observations, as in ALDEN's copy",
        "docagent.rollout.turn_tokens",
    ),
    same("data.rollout_batch_size", "data.train_batch_size", note="questions per step"),
    none(
        "data.mini_rollout_batch_size",
        "a step plays the questions that it trains on; when groups are filtered, questions are "
        "handed out one at a time",
    ),
    converted(
        "data.val_batch_size",
        no_limit("data.val_batch_size"),
        "-1, which means all, is null",
        "data.val_batch_size",
    ),
    elsewhere(
        "data.format_prompt",
        "a prompt here is a file of several parts: docagent-rl prompts show SYSTEM > mine.yaml",
        "docagent.prompt",
    ),
    elsewhere(
        "data.override_chat_template",
        "the key here holds the template itself, not its file",
        "actor_rollout_ref.model.custom_chat_template",
    ),
    same("data.shuffle", "data.shuffle"),
    same("data.seed", "data.seed"),
    elsewhere("data.min_pixels", _PIXELS, "docagent.env.display.min_pixels"),
    elsewhere("data.max_pixels", _PIXELS, "docagent.env.display.max_pixels"),
    elsewhere(
        "data.filter_overlong_prompts",
        "the environment builds the prompts: refuse (default) or mask questions whose prompt does "
        "not fit",
        "docagent.rollout.unplayable",
    ),
    none("data.filter_overlong_prompts_workers", "prompts are not tokenized before the run"),
)

ALGORITHM = (
    same("algorithm.gamma", "algorithm.gamma", note="between tokens; between turns: gamma_turn"),
    same("algorithm.lam", "algorithm.lam"),
    converted(
        "algorithm.adv_estimator",
        estimator,
        "grpo is trajectory_grpo, gae token_gae (turn_gae discounts by turns), ALDEN's "
        "bi_level_gae turn_gae; rloo, reinforce_plus_plus and grpo_passk are verl's; remax has no "
        "counterpart",
        "algorithm.adv_estimator",
        "critic.enable",
        "docagent.advantage.options",
    ),
    converted(
        "algorithm.disable_kl",
        kl_place,
        "true: neither in the loss nor in the reward, and no reference model",
        "actor_rollout_ref.actor.use_kl_loss",
        "algorithm.use_kl_in_reward",
    ),
    converted(
        "algorithm.use_kl_loss",
        kl_place,
        "false puts the KL into the reward, unless disable_kl",
        "actor_rollout_ref.actor.use_kl_loss",
        "algorithm.use_kl_in_reward",
    ),
    converted(
        "algorithm.kl_penalty",
        kl_penalty,
        "in the loss or in the reward; full has no counterpart",
        "actor_rollout_ref.actor.kl_loss_type",
        "algorithm.kl_penalty",
    ),
    converted(
        "algorithm.kl_coef",
        kl_coef,
        "in the loss or in the reward",
        "actor_rollout_ref.actor.kl_loss_coef",
        "algorithm.kl_ctrl.kl_coef",
    ),
    same("algorithm.kl_type", "algorithm.kl_ctrl.type", note="of the KL in the reward"),
    same("algorithm.kl_horizon", "algorithm.kl_ctrl.horizon"),
    same("algorithm.kl_target", "algorithm.kl_ctrl.target_kl"),
    same("algorithm.online_filtering", "algorithm.filter_groups.enable"),
    converted(
        "algorithm.filter_key",
        filter_key,
        "overall is reward; another number of the function is reward/FUNCTION.NAME",
        "algorithm.filter_groups.metric",
    ),
    none("algorithm.filter_low", _BOUNDS),
    none("algorithm.filter_high", _BOUNDS),
)

TRAINER = (
    same("trainer.total_epochs", "trainer.total_epochs"),
    same("trainer.max_steps", "trainer.total_training_steps"),
    same("trainer.project_name", "trainer.project_name"),
    same("trainer.experiment_name", "trainer.experiment_name"),
    same("trainer.logger", "trainer.logger"),
    same("trainer.nnodes", "trainer.nnodes"),
    same("trainer.n_gpus_per_node", "trainer.n_gpus_per_node"),
    none(
        "trainer.max_try_make_batch",
        "verl's replay buffer has no such limit; a run whose groups are all masked ends",
    ),
    same("trainer.critic_warmup", "trainer.critic_warmup"),
    same("trainer.val_freq", "trainer.test_freq"),
    same("trainer.val_before_train", "trainer.val_before_train"),
    same("trainer.val_only", "trainer.val_only"),
    same("trainer.val_generations_to_log", "trainer.log_val_generations"),
    same("trainer.save_freq", "trainer.save_freq"),
    converted(
        "trainer.save_limit",
        no_limit("trainer.max_actor_ckpt_to_keep", "trainer.max_critic_ckpt_to_keep"),
        "-1, which keeps all, is null; the best checkpoint is kept in addition "
        "(docagent.keep_best)",
        "trainer.max_actor_ckpt_to_keep",
        "trainer.max_critic_ckpt_to_keep",
    ),
    converted(
        "trainer.save_model_only",
        save_model_only,
        "true: [model]",
        "actor_rollout_ref.actor.checkpoint.save_contents",
        "critic.checkpoint.save_contents",
    ),
    elsewhere(
        "trainer.save_checkpoint_path",
        "everything that a run writes is in its folder WORKSPACE/runs/EXPERIMENT",
        "docagent.run_dir",
    ),
    none(
        "trainer.load_checkpoint_path",
        "EasyR1's shards cannot be resumed: merge them with its scripts/model_merger.py, and name "
        "the result as actor_rollout_ref.model.path",
    ),
    same("trainer.ray_timeline", "ray_kwargs.timeline_json_file"),
    converted(
        "trainer.find_last_checkpoint",
        lambda value, theirs: {"trainer.resume_mode": "auto" if value else "disable"},
        "true is auto, false is disable",
        "trainer.resume_mode",
    ),
)

ALDEN = (
    none("data.test_files", "docagent-rl eval evaluates checkpoints"),
    elsewhere(
        "data.recall_ocr",
        "the hybrid searches and shows text, too: build on its recipe with --on",
        "alden_hybrid_qwen2_5_vl_7b",
    ),
    same("algorithm.turn_level_gamma", "docagent.advantage.gamma_turn"),
    same("trainer.total_episodes", "trainer.total_epochs"),
)
"""Keys of ALDEN's copy."""


@cache
def entries() -> Mapping[str, KeyTranslation]:
    """Return the entries of all keys of EasyR1 and of ALDEN's copy, by key."""
    return {entry.key: entry for entry in (*DATA, *ALGORITHM, *WORKER, *TRAINER, *ALDEN)}
