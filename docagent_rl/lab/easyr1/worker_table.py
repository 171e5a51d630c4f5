"""The keys of EasyR1's workers, with what becomes of each here: actor, critic, reference, rollout
and reward.
"""

from collections.abc import Iterator

from docagent_rl.lab.easyr1.conversions import (
    ACTOR,
    FUNCTION,
    MODEL,
    REF,
    ROLLOUT,
    average,
    dtype,
    if_critic,
    kept,
    lora,
    loss_type,
    micro_batch,
    named,
    on_alden,
    optimizer,
    precision,
    reward_function,
    validation,
)
from docagent_rl.lab.easyr1.entry import (
    Converter,
    KeyTranslation,
    TranslationKind,
    converted,
    elsewhere,
    none,
    same,
)

_AUTO = "EasyR1 sets it itself"
_PACKED = "rows are packed without padding (actor_rollout_ref.model.use_remove_padding)"
_ROWS = (
    "rows per GPU become tokens per GPU, at least those of the recipe's longest row, which holds "
    "all turns and images of a trajectory; without dynamic_batching they stay rows"
)
_PRECISIONS = "the three are one section, which is set if one of them is not EasyR1's default"
_REF_OFFLOAD = "verl always keeps the reference model in host memory"
_LORA_OF_CRITIC = "critics are trained in full, as in EasyR1"
_ADAPTERS = "with a rank; +lora=language sets what adapters need (docs/lora.md)"
_STRATEGY = "recipes train with FSDP2; fsdp is FSDP1, as in EasyR1"


def _engine(role: str, ours: str) -> Iterator[KeyTranslation]:
    """Yield the entries of an engine: sharding, precision."""
    theirs = f"worker.{role}.fsdp"
    yield _for(role, f"{theirs}.enable_full_shard", f"{ours}.reshard_after_forward")
    if role == "ref":
        yield none(f"{theirs}.enable_cpu_offload", _REF_OFFLOAD)
    else:
        yield _for(role, f"{theirs}.enable_cpu_offload", f"{ours}.offload_policy")
    yield none(f"{theirs}.enable_rank0_init", "verl loads weights on the first rank only")
    yield none(f"{theirs}.use_orig_params", "it is for FSDP1, and recipes train with FSDP2")
    names = {"bf16": "bfloat16", "fp16": "float16", "fp32": "fp32"}
    yield converted(
        f"{theirs}.torch_dtype",
        _given(role, named(names, f"{ours}.model_dtype")),
        "bf16 is bfloat16",
        f"{ours}.model_dtype",
    )
    yield _for(role, f"{theirs}.fsdp_size", f"{ours}.fsdp_size")
    for name in ("param", "reduce", "buffer"):
        yield converted(
            f"{theirs}.mp_{name}_dtype",
            _given(role, precision(f"worker.{role}", ours)),
            _PRECISIONS,
            f"{ours}.mixed_precision.{name}_dtype",
        )


def _optimizer(role: str, ours: str) -> Iterator[KeyTranslation]:
    """Yield the entries of an optimizer."""
    theirs = f"worker.{role}.optim"
    for name in ("lr", "betas", "weight_decay"):
        yield _for(role, f"{theirs}.{name}", f"{ours}.{name}")
    yield converted(
        f"{theirs}.strategy", _given(role, optimizer), "adamw; adamw_bf16 has no counterpart"
    )
    yield _for(role, f"{theirs}.lr_warmup_ratio", f"{ours}.lr_warmup_steps_ratio")
    yield _for(role, f"{theirs}.lr_warmup_steps", f"{ours}.lr_warmup_steps")
    yield _for(role, f"{theirs}.min_lr_ratio", f"{ours}.min_lr_ratio")
    yield _for(role, f"{theirs}.lr_scheduler_type", f"{ours}.lr_scheduler_type")
    yield none(f"{theirs}.training_steps", _AUTO)
    # ALDEN's copy
    yield converted(
        f"{theirs}.warmup_style",
        _given(role, kept(f"{ours}.lr_scheduler_type")),
        "the earlier name of lr_scheduler_type",
        f"{ours}.lr_scheduler_type",
    )


def _given(role: str, converter: Converter) -> Converter:
    return if_critic(converter) if role == "critic" else converter


def _for(role: str, key: str, ours: str, note: str = "") -> KeyTranslation:
    """Return the entry of a key whose value is kept; that of a critic only if there is one."""
    if role != "critic":
        return same(key, ours, note=note)
    return KeyTranslation(key, TranslationKind.SAME, (ours,), note, if_critic(kept(ours)))


def _model(role: str, ours: str) -> Iterator[KeyTranslation]:
    """Yield the entries of a model."""
    theirs = f"worker.{role}.model"
    yield _for(role, f"{theirs}.model_path", f"{ours}.path")
    yield _for(role, f"{theirs}.tokenizer_path", f"{ours}.tokenizer_path")
    yield _for(role, f"{theirs}.override_config", f"{ours}.override_config")
    checkpointing = "enable_gradient_checkpointing"
    yield _for(role, f"{theirs}.{checkpointing}", f"{ours}.{checkpointing}")
    yield _for(role, f"{theirs}.trust_remote_code", f"{ours}.trust_remote_code")
    frozen = "docagent.critic" if role == "critic" else ACTOR
    yield _for(role, f"{theirs}.freeze_vision_tower", f"{frozen}.freeze_vision_tower")
    for name, own in {"rank": "lora_rank", "alpha": "lora_alpha"}.items():
        yield _adapter(role, name, own, ours)
    for name in ("target_modules", "exclude_modules"):
        yield _adapter(role, name, name, ours)


def _adapter(role: str, name: str, own: str, ours: str) -> KeyTranslation:
    key = f"worker.{role}.model.lora.{name}"
    if role == "critic":
        return none(key, _LORA_OF_CRITIC)
    note = "names in one text become a list" if name == "target_modules" else _ADAPTERS
    return converted(key, lora(own), note, f"{ours}.{own}")


def _trained(role: str, ours: str, engine: str, model: str) -> Iterator[KeyTranslation]:
    """Yield the entries that actor and critic share."""
    theirs = f"worker.{role}"
    yield elsewhere(f"{theirs}.strategy", _STRATEGY, f"{ours}.strategy")
    yield _for(role, f"{theirs}.global_batch_size", f"{ours}.ppo_mini_batch_size", "questions")
    yield _for(role, f"{theirs}.max_grad_norm", f"{ours}.optim.clip_grad")
    yield converted(
        f"{theirs}.loss_avg_mode",
        _given(role, average(ours)),
        "token is token-mean, seq is seq-mean-token-mean (docs/losses.md)",
        f"{ours}.loss_agg_mode",
    )
    yield _for(role, f"{theirs}.ppo_epochs", f"{ours}.ppo_epochs")
    yield none(f"{theirs}.padding_free", _PACKED)
    yield _for(role, f"{theirs}.dynamic_batching", f"{ours}.use_dynamic_bsz")
    shared = f"{engine}.ulysses_sequence_parallel_size"
    yield _for(role, f"{theirs}.ulysses_size", shared, "GPUs that share a row")
    yield _for(role, f"{theirs}.ulysses_sequence_parallel_size", shared, "of ALDEN's copy")
    yield none(f"{theirs}.global_batch_size_per_device", _AUTO)
    yield from _model(role, model)
    yield from _optimizer(role, f"{ours}.optim")
    yield from _engine(role, engine)
    for name, own in {"offload_params": "param", "offload_optimizer": "optimizer"}.items():
        yield _for(role, f"{theirs}.offload.{name}", f"{engine}.{own}_offload")


def _micro(role: str, name: str, tokens: tuple[str, ...], rows: tuple[str, ...]) -> KeyTranslation:
    converter = micro_batch(f"worker.{role}", f"worker.{role}.ulysses_size", tokens, rows)
    key = f"worker.{role}.micro_batch_size_per_device_for_{name}"
    return converted(key, _given(role, converter), _ROWS, *tokens)


def _actor() -> Iterator[KeyTranslation]:
    theirs = "worker.actor"
    yield from _trained("actor", ACTOR, f"{ACTOR}.fsdp_config", MODEL)
    yield _micro(
        "actor",
        "update",
        (f"{ACTOR}.ppo_max_token_len_per_gpu",),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu",),
    )
    yield _micro(
        "actor",
        "experience",
        (f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{REF}.log_prob_max_token_len_per_gpu"),
        (
            f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
            f"{REF}.log_prob_micro_batch_size_per_gpu",
        ),
    )
    yield same(f"{theirs}.clip_ratio_low", f"{ACTOR}.clip_ratio_low")
    yield same(f"{theirs}.clip_ratio_high", f"{ACTOR}.clip_ratio_high")
    yield same(f"{theirs}.clip_ratio_dual", f"{ACTOR}.clip_ratio_c")
    yield converted(
        f"{theirs}.loss_type",
        loss_type,
        "default is vanilla; verl's gspo is EasyR1's gspo_token, and its sapo always averages by "
        "sequence",
        f"{ACTOR}.policy_loss.loss_mode",
    )
    yield same(f"{theirs}.tau_positive", f"{ACTOR}.tau_pos")
    yield same(f"{theirs}.tau_negative", f"{ACTOR}.tau_neg")
    yield same(f"{theirs}.use_torch_compile", f"{ACTOR}.fsdp_config.use_torch_compile")
    for name in ("disable_kl", "use_kl_loss", "kl_penalty", "kl_coef"):
        yield none(f"{theirs}.{name}", f"{_AUTO}, from algorithm.{name}")


def _critic() -> Iterator[KeyTranslation]:
    yield from _trained("critic", "critic", "critic.fsdp", "critic.model")
    yield _micro(
        "critic",
        "update",
        ("critic.ppo_max_token_len_per_gpu",),
        ("critic.ppo_micro_batch_size_per_gpu",),
    )
    yield _micro(
        "critic",
        "experience",
        ("critic.ppo_infer_max_token_len_per_gpu",),
        ("critic.forward_micro_batch_size_per_gpu",),
    )
    yield _for("critic", "worker.critic.cliprange_value", "critic.cliprange_value")


def _ref() -> Iterator[KeyTranslation]:
    yield elsewhere("worker.ref.strategy", "it follows the actor's", f"{REF}.strategy")
    yield from _engine("ref", f"{REF}.fsdp_config")
    yield none("worker.ref.offload.offload_params", _REF_OFFLOAD)
    yield none("worker.ref.offload.offload_optimizer", "the reference model has no optimizer")
    names = "micro_batch_size_per_device_for_experience padding_free dynamic_batching ulysses_size"
    for name in (*names.split(), "use_torch_compile"):
        yield none(f"worker.ref.{name}", f"{_AUTO}, from worker.actor.{name}")


def _rollout() -> Iterator[KeyTranslation]:
    theirs = "worker.rollout"
    yield none(f"{theirs}.name", "the servers are vLLM")
    names = "n temperature top_p top_k seed gpu_memory_utilization ignore_eos enforce_eager"
    for name in (*names.split(), "max_num_batched_tokens", "disable_log_stats"):
        note = "trajectories of a question" if name == "n" else ""
        yield same(f"{theirs}.{name}", f"{ROLLOUT}.{name}", note=note)
    yield same(f"{theirs}.tensor_parallel_size", f"{ROLLOUT}.tensor_model_parallel_size")
    yield converted(
        f"{theirs}.dtype", dtype(f"{ROLLOUT}.dtype"), "bf16 is bfloat16", f"{ROLLOUT}.dtype"
    )
    yield elsewhere(
        f"{theirs}.limit_images",
        "the environment limits the images of a trajectory (ALDEN: image_budget.images)",
        "docagent.env",
    )
    yield none(f"{theirs}.enable_chunked_prefill", "vLLM's V1 engine always prefills in chunks")
    yield elsewhere(
        f"{theirs}.max_model_len",
        "it has to hold all turns and images of a trajectory: the recipe's value stays",
        f"{ROLLOUT}.max_model_len",
    )
    yield none(f"{theirs}.disable_tqdm", "a step prints one line (docagent.console)")
    keys = (f"{ROLLOUT}.val_kwargs.{name}" for name in ("temperature", "top_p", "top_k", "n"))
    yield converted(
        f"{theirs}.val_override_config",
        validation,
        "what it does not name is as in training, as in EasyR1",
        *keys,
    )
    for name in ("prompt_length", "response_length", "trust_remote_code"):
        yield none(f"{theirs}.{name}", _AUTO)


def _reward() -> Iterator[KeyTranslation]:
    yield converted(
        "worker.reward.reward_function",
        reward_function,
        "file.py:function, without a name main; it replaces the system's reward, as the only one "
        "in EasyR1 (docs/extending.md)",
        f"{FUNCTION}.path",
        f"{FUNCTION}.name",
        "docagent.reward_function.mode",
    )
    yield same("worker.reward.reward_function_kwargs", f"{FUNCTION}.reward_kwargs")
    yield none(
        "worker.reward.skip_special_tokens",
        "the function gets the final answer without its tags, and texts without special tokens",
    )
    yield none("worker.reward.num_cpus", "the function runs in threads of the agent workers")
    yield none("worker.reward.reward_function_name", _AUTO)


def _alden() -> Iterator[KeyTranslation]:
    """Yield the entries of ALDEN's copy: what its scripts set is in the recipes of ALDEN."""
    recipe = "the reward is that of ALDEN's recipes"
    names = (
        "reward_type score_function score_function_kwargs multi_turn_rewards "
        "repetition_penalty_factor ndcg_k lambda_action_repetition_penalty "
        "search_query_repetition_penalty usage_top_n"
    )
    for name in names.split():
        yield elsewhere(f"worker.reward.{name}", recipe, "docagent.env.reward")
    yield elsewhere("worker.critic.multi_turn_rewards", recipe, "docagent.env.reward")
    hybrid = "the hybrid searches and shows text, too: build on its recipe with --on"
    for section in ("reward", "rollout"):
        for name in ("recall_ocr", "mm_fetch"):
            yield elsewhere(f"worker.{section}.{name}", hybrid, "alden_hybrid_qwen2_5_vl_7b")
    pixels = "the size at which a page is shown"
    for section in ("actor", "critic", "ref", "rollout"):
        for name in ("min_pixels", "max_pixels"):
            yield elsewhere(f"worker.{section}.{name}", pixels, f"docagent.env.display.{name}")
    places = {
        "max_turn_num": "docagent.env.max_turns",
        "top_n": "docagent.env.search.top_k",
        "usage_top_n": "docagent.env.search.pages_per_search",
    }
    for name, ours in places.items():
        yield converted(f"worker.rollout.{name}", on_alden(ours), "on ALDEN's recipes", ours)
    yield elsewhere(
        "worker.rollout.search_url",
        "an index of this package, in the process or on a server (docs/retrieval/service.md)",
        "docagent.retriever",
    )


WORKER = (
    none("worker.hybrid_engine", "the trainer's GPUs play, too, as in EasyR1"),
    *_actor(),
    *_critic(),
    *_ref(),
    *_rollout(),
    *_reward(),
    *_alden(),
)
"""The entries of all keys of the section `worker`."""
