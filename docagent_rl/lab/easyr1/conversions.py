"""Conversions of EasyR1's values: other units, other names, and keys that only mean something
together.
"""

from collections.abc import Mapping
from typing import Any

from docagent_rl.lab.easyr1.entry import Converter, NoCounterpart, Theirs

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"
REF = "actor_rollout_ref.ref"
MODEL = "actor_rollout_ref.model"
FUNCTION = "reward.custom_reward_function"

_ESTIMATORS = {
    "grpo": "trajectory_grpo",
    "gae": "token_gae",
    "bi_level_gae": "turn_gae",
    "rloo": "rloo",
    "reinforce_plus_plus": "reinforce_plus_plus",
    "grpo_passk": "grpo_passk",
}
_LOSSES = {
    "default": "vanilla",
    "gspo": "gspo",
    "gspo_token": "gspo",
    "cispo": "cispo",
    "sapo": "sapo",
}
_AVERAGES = {"token": "token-mean", "seq": "seq-mean-token-mean"}
_PENALTIES = ("kl", "abs", "mse", "low_var_kl")
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_PRECISION = {"mp_param_dtype": "bf16", "mp_reduce_dtype": "fp32", "mp_buffer_dtype": "fp32"}
"""EasyR1's precisions, which are also verl's."""


def named(names: Mapping[str, str], *ours: str) -> Converter:
    """Return a conversion of names; another name has no counterpart."""

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        if value is None:
            return {}
        if value not in names:
            raise NoCounterpart(f"{value!r} is not known here; known are {', '.join(names)}")
        return dict.fromkeys(ours, names[value])

    return convert


def dtype(*ours: str) -> Converter:
    """Return a conversion of a name of a number format, such as bf16."""
    return named({**_DTYPES, **{name: name for name in _DTYPES.values()}}, *ours)


def average(section: str) -> Converter:
    """Return the conversion of `loss_avg_mode` of a section."""
    return named(_AVERAGES, f"{section}.loss_agg_mode")


def loss_type(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the kind of the policy's loss."""
    return named(_LOSSES, f"{ACTOR}.policy_loss.loss_mode")(value, theirs)


def no_limit(*ours: str) -> Converter:
    """Return a conversion of a number, of which -1 means all or no limit; here that is null."""
    return lambda value, theirs: dict.fromkeys(ours, None if value in (None, -1) else value)


def prompt_length(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the length of prompts, which only ALDEN's copy has as this package has it."""
    if not theirs.is_alden:
        raise NoCounterpart(
            "the prompt here has the system's rules and the question; images only come with "
            "observations, so that the recipe's data.max_prompt_length stays"
        )
    return {"data.max_prompt_length": value, f"{ROLLOUT}.max_model_len": theirs.rows_are}


def response_length(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the length of replies: that of a turn, and in ALDEN's copy of all turns."""
    if not theirs.is_alden:
        return {"docagent.rollout.turn_tokens": value}
    return {"data.max_response_length": value, f"{ROLLOUT}.max_model_len": theirs.rows_are}


def estimator(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the estimator, and with it whether there is a critic."""
    if value == "remax":
        raise NoCounterpart(
            "verl's V1 trainers do not play the greedy trajectory that it compares with: use "
            "rloo, or trajectory_grpo with docagent.advantage.options.std=none"
        )
    found = named(_ESTIMATORS, "algorithm.adv_estimator")(value, theirs)
    changes = {**found, "critic.enable": value in ("gae", "bi_level_gae")}
    # ALDEN's recipes have a KL on observations, which EasyR1 does not
    if theirs.is_on_alden and not theirs.is_alden:
        changes["docagent.kl.observation.coef"] = 0
    # options are those of the recipe's own estimator
    return {**changes, "docagent.advantage.options": None}


def if_critic(converter: Converter) -> Converter:
    """Return a conversion that is empty without a critic."""

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        with_critic = theirs.get("algorithm.adv_estimator") in ("gae", "bi_level_gae")
        return converter(value, theirs) if with_critic else {}

    return convert


def kept(*ours: str) -> Converter:
    """Return a conversion that keeps the value; null leaves the recipe's."""
    return lambda value, theirs: {} if value is None else dict.fromkeys(ours, value)


def kl_place(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert `disable_kl` and `use_kl_loss`: in the loss, in the reward, or nowhere."""
    place = _kl_place(theirs)
    return {
        f"{ACTOR}.use_kl_loss": place == "loss",
        "algorithm.use_kl_in_reward": place == "reward",
    }


def kl_penalty(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the kind of the KL penalty, for the place where it is used."""
    place = _kl_place(theirs)
    if place is None:
        return {}
    if value not in _PENALTIES:
        raise NoCounterpart(
            f"{value!r} needs the logits of all words, which verl does not have there: use one of "
            f"{', '.join(_PENALTIES)}"
        )
    key = f"{ACTOR}.kl_loss_type" if place == "loss" else "algorithm.kl_penalty"
    return {key: value}


def kl_coef(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the weight of the KL penalty, for the place where it is used."""
    place = _kl_place(theirs)
    if place is None:
        return {}
    key = f"{ACTOR}.kl_loss_coef" if place == "loss" else "algorithm.kl_ctrl.kl_coef"
    return {key: value}


def _kl_place(theirs: Theirs) -> str | None:
    if theirs.get("algorithm.disable_kl"):
        return None
    return "loss" if theirs.get("algorithm.use_kl_loss") else "reward"


def micro_batch(
    role: str, shared: str, tokens: tuple[str, ...], rows: tuple[str, ...]
) -> Converter:
    """Return the conversion of rows per micro-batch.

    With dynamic batching EasyR1 fills micro-batches up to that many of its padded rows. Here that
    is a number of tokens, at least that of the longest row.

    Args:
        role: EasyR1's section.
        shared: EasyR1's key of the GPUs that share a row.
        tokens: our keys for a number of tokens.
        rows: our keys for a number of rows, which are used without dynamic batching.
    """

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        if not theirs.get(f"{role}.dynamic_batching"):
            return dict.fromkeys(rows, value)
        longest = -(-theirs.row_tokens // (theirs.get(shared) or 1))
        return dict.fromkeys(tokens, max(value * theirs.rows_are, longest))

    return convert


def precision(role: str, ours: str) -> Converter:
    """Return the conversion of one of the three precisions of an engine, which verl has together.

    Without any that differs from the defaults, which are the same, nothing is set.
    """

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        keys = {key: theirs.get(f"{role}.fsdp.{key}") for key in _PRECISION}
        if keys == _PRECISION:
            return {}
        section = f"{ours}.mixed_precision"
        return {f"{section}.{key.removeprefix('mp_')}": name for key, name in keys.items()}

    return convert


def lora(key: str) -> Converter:
    """Return the conversion of a key of the adapters, which only matters with a rank."""

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        if not theirs.get("worker.actor.model.lora.rank") or value is None:
            return {}
        if key == "target_modules" and value != "all-linear":
            return {f"{MODEL}.{key}": [name.strip() for name in value.split(",") if name.strip()]}
        return {f"{MODEL}.{key}": value}

    return convert


def optimizer(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the optimizer: AdamW is what recipes train with."""
    if value != "adamw":
        raise NoCounterpart(
            f"{value!r} is EasyR1's own optimizer: AdamW stays; actor_rollout_ref.actor.optim."
            "optimizer_impl and optimizer name another one"
        )
    return {}


def reward_function(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert `file.py:function`; it is the only reward, as in EasyR1."""
    if value is None:
        return {}
    path, colon, name = value.rpartition(":")
    return {
        f"{FUNCTION}.path": path if colon else value,
        f"{FUNCTION}.name": name if colon else "main",
        "docagent.reward_function.mode": "replace",
        "docagent.reward_function.weight": 1.0,
    }


def filter_key(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the number by which groups are filtered, if they are."""
    if not theirs.get("algorithm.online_filtering"):
        return {}
    function = theirs.get("worker.reward.reward_function") or ""
    name = function.rpartition(":")[2] if ":" in function else "main"
    metric = "reward" if value == "overall" else f"reward/{name}.{value}"
    return {"algorithm.filter_groups.metric": metric}


def validation(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert the sampling of validations: EasyR1's rollout with the changes of this key."""
    names = ("temperature", "top_p", "top_k")
    sampling = {name: theirs.get(f"worker.rollout.{name}") for name in names}
    chosen = {**sampling, "n": 1, **value}
    changes = {f"{ROLLOUT}.val_kwargs.{name}": chosen[name] for name in ("n", *names)}
    return {**changes, f"{ROLLOUT}.val_kwargs.do_sample": chosen["temperature"] > 0}


def save_model_only(value: Any, theirs: Theirs) -> Mapping[str, Any]:
    """Convert whether checkpoints leave out the optimizer, so that no run resumes from them."""
    keys = (f"{ACTOR}.checkpoint.save_contents", "critic.checkpoint.save_contents")
    return {key: ["model"] for key in keys} if value else {}


def on_alden(*ours: str) -> Converter:
    """Return a conversion for ALDEN's environment, which only its recipes have."""

    def convert(value: Any, theirs: Theirs) -> Mapping[str, Any]:
        if not theirs.is_on_alden:
            raise NoCounterpart(
                f"the recipe {theirs.base} has no such key: build on an ALDEN recipe"
            )
        return dict.fromkeys(ours, value)

    return convert
