"""Finds values of verl's own keys that no run can have.

verl meets most of them minutes after Ray has started, in whichever process reads them first.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.tracebacks import clean
from docagent_rl.training.plugin import TRAINER_MODES

VERL_MODES = ("sync", "colocate_async", "separate_async")
LEAST_PROMPT = 16
"""Tokens: the frame of a chat alone, without any system prompt or question, takes about as many."""
_LEAST_RESPONSE = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value has to be.

    Args:
        what: in words, for the message.
        holds: whether it is.
        null: whether `null` will do as well.
    """

    what: str
    holds: Callable[[Any], bool]
    null: bool = False

    def allows(self, value: Any) -> bool:
        """Whether a value is one."""
        return self.null if value is None else self.holds(value)


def whole(least: int, *also: int, null: bool = False) -> Rule:
    """A whole number from `least` on, or one of `also`."""
    either = "".join(f" or {number}" for number in also)
    return Rule(
        f"a whole number of at least {least}{either}" + (" or null" if null else ""),
        lambda value: _is_whole(value) and (value >= least or value in also),
        null,
    )


def real(
    least: float, most: float = math.inf, *, open_below: bool = False, also: tuple[float, ...] = ()
) -> Rule:
    """A finite number from `least` to `most`."""
    side = f"above {least:g}" if open_below else f"of at least {least:g}"
    bound = "" if most == math.inf else f" and at most {most:g}"
    either = "".join(f" or {number:g}" for number in also)

    def holds(value: Any) -> bool:
        if not _is_number(value) or not math.isfinite(value):
            return False
        above = value > least if open_below else value >= least
        return (above and value <= most) or value in also

    return Rule(f"a number {side}{bound}{either}", holds)


def one_of(*names: str) -> Rule:
    """One of some names."""
    return Rule(f"one of {', '.join(names)}", lambda value: value in names)


_FLAG = Rule("true or false", lambda value: isinstance(value, bool))
_FILES = Rule("the path of a file, or a list of such paths", lambda value: _are_paths(value))
_MICRO = whole(1, null=True)

RULES: Mapping[str, Rule] = {
    "data.train_files": _FILES,
    "data.val_files": _FILES,
    "data.train_batch_size": whole(1),
    "data.gen_batch_size": whole(1, null=True),
    "data.val_batch_size": whole(1, null=True),
    "data.max_prompt_length": whole(LEAST_PROMPT),
    "data.max_response_length": whole(_LEAST_RESPONSE),
    "data.train_max_samples": whole(1, -1, null=True),
    "data.val_max_samples": whole(1, -1, null=True),
    "data.dataloader_num_workers": whole(0),
    "data.shuffle": _FLAG,
    "actor_rollout_ref.rollout.n": whole(1),
    "actor_rollout_ref.rollout.val_kwargs.n": whole(1),
    "actor_rollout_ref.rollout.temperature": real(0, open_below=True),
    "actor_rollout_ref.rollout.val_kwargs.temperature": real(0),
    "actor_rollout_ref.rollout.top_p": real(0, 1, open_below=True),
    "actor_rollout_ref.rollout.val_kwargs.top_p": real(0, 1, open_below=True),
    "actor_rollout_ref.rollout.top_k": whole(1, -1, 0),
    "actor_rollout_ref.rollout.val_kwargs.top_k": whole(1, -1, 0),
    "actor_rollout_ref.rollout.gpu_memory_utilization": real(0, 1, open_below=True),
    "actor_rollout_ref.rollout.tensor_model_parallel_size": whole(1),
    "actor_rollout_ref.rollout.data_parallel_size": whole(1),
    "actor_rollout_ref.rollout.pipeline_model_parallel_size": whole(1),
    "actor_rollout_ref.rollout.max_model_len": whole(LEAST_PROMPT + _LEAST_RESPONSE, null=True),
    "actor_rollout_ref.rollout.max_num_seqs": whole(1),
    "actor_rollout_ref.rollout.max_num_batched_tokens": whole(1, null=True),
    "actor_rollout_ref.rollout.agent.num_workers": whole(1),
    "actor_rollout_ref.rollout.log_prob_micro_batch_size": _MICRO,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": _MICRO,
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes": whole(1),
    "actor_rollout_ref.ref.log_prob_micro_batch_size": _MICRO,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": _MICRO,
    "actor_rollout_ref.actor.ppo_mini_batch_size": whole(1),
    "actor_rollout_ref.actor.ppo_micro_batch_size": _MICRO,
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": _MICRO,
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": whole(1),
    "actor_rollout_ref.actor.ppo_epochs": whole(1),
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": whole(1),
    "actor_rollout_ref.actor.clip_ratio": real(0),
    "actor_rollout_ref.actor.clip_ratio_low": real(0),
    "actor_rollout_ref.actor.clip_ratio_high": real(0),
    "actor_rollout_ref.actor.clip_ratio_c": real(1, open_below=True),
    "actor_rollout_ref.actor.kl_loss_coef": real(0),
    "actor_rollout_ref.actor.optim.lr": real(0),
    "actor_rollout_ref.actor.optim.weight_decay": real(0),
    "actor_rollout_ref.actor.optim.clip_grad": real(0, open_below=True),
    "algorithm.gamma": real(0, 1),
    "algorithm.lam": real(0, 1),
    "trainer.nnodes": whole(1),
    "trainer.n_gpus_per_node": whole(1),
    "trainer.total_epochs": whole(1),
    "trainer.total_training_steps": whole(1, null=True),
    "trainer.save_freq": whole(1, -1, 0),
    "trainer.test_freq": whole(1, -1, 0),
    "trainer.critic_warmup": whole(0),
    "trainer.val_before_train": _FLAG,
    "trainer.max_actor_ckpt_to_keep": whole(1, null=True),
    "trainer.max_critic_ckpt_to_keep": whole(1, null=True),
    "trainer.resume_mode": one_of("auto", "disable", "resume_path"),
    "reward.num_workers": whole(1),
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": whole(1),
}

CRITIC_RULES: Mapping[str, Rule] = {
    "critic.ppo_mini_batch_size": whole(1),
    "critic.ppo_micro_batch_size": _MICRO,
    "critic.ppo_micro_batch_size_per_gpu": _MICRO,
    "critic.forward_micro_batch_size_per_gpu": _MICRO,
    "critic.ppo_epochs": whole(1),
    "critic.cliprange_value": real(0),
    "critic.optim.lr": real(0),
}
"""Of a critic, where there is one."""


def check_values(config: DictConfig) -> None:
    """Refuse values that no run can have.

    Keys that a configuration lacks are verl's to complain of.

    Args:
        config: the composed configuration.

    Raises:
        UserError: names every such key with its value and what it has to be.
    """
    rules = {**RULES, **CRITIC_RULES} if OmegaConf.select(config, "critic.enable") else RULES
    problems = []
    for key, rule in rules.items():
        if _absent(config, key):
            continue
        value = OmegaConf.select(config, key)
        if not rule.allows(value):
            problems.append(f"{key}={_shown(value)}: has to be {rule.what}")
    problems += _resumed_from_nowhere(config)
    if problems:
        raise UserError("values that no run can have:\n  " + "\n  ".join(problems))


def check_mode(config: DictConfig) -> None:
    """Refuse a trainer mode that nobody has registered.

    Args:
        config: the composed configuration, the modules of the user loaded: they may register modes.

    Raises:
        UserError: names the mode and those there are.
    """
    trainers = sys.modules.get("verl.trainer.ppo.v1.trainer_base")
    known = dict.fromkeys((*TRAINER_MODES, *VERL_MODES, *getattr(trainers, "TRAINER_REGISTRY", ())))
    mode = OmegaConf.select(config, "trainer.v1.trainer_mode")
    if mode not in known:
        raise UserError(f"trainer.v1.trainer_mode={mode} is not registered; known: {', '.join(known)}")


def check_by_verl(config: DictConfig) -> None:
    """Let verl check what it would check right after the preflight, where a failure is a traceback.

    A critic is left out: its configuration loads the model's files already when it is made.

    Args:
        config: the composed configuration, its values checked.

    Raises:
        UserError: verl refuses it; the message is verl's.
    """
    from verl.trainer.ppo.utils import need_reference_policy
    from verl.utils.config import validate_config

    try:
        # verl says it all again when it starts
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            validate_config(config, need_reference_policy(config), use_critic=False)
    except (AssertionError, ValueError, TypeError, NotImplementedError, HydraException) as error:
        cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
        said = clean(str(cause)) or type(cause).__name__
        raise UserError(f"verl refuses this configuration: {said}") from error


def _absent(config: DictConfig, key: str) -> bool:
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(config, section)
    return not isinstance(node, DictConfig) or name not in node


def _resumed_from_nowhere(config: DictConfig) -> list[str]:
    path = OmegaConf.select(config, "trainer.resume_from_path")
    named = isinstance(path, str) and "global_step_" in path
    if OmegaConf.select(config, "trainer.resume_mode") != "resume_path" or named:
        return []
    return [f"trainer.resume_from_path={_shown(path)}: has to be the path of a folder global_step_<number>"]


def _shown(value: Any) -> str:
    if isinstance(value, ListConfig):
        value = OmegaConf.to_container(value)
    return "null" if value is None else str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_paths(value: Any) -> bool:
    paths = value if isinstance(value, list | tuple | ListConfig) else [value]
    return bool(paths) and all(isinstance(path, str) and path.strip() for path in paths)
