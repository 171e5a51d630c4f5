"""Checks of what the configuration alone tells: keys, token budgets, estimator, roles of the policy."""

from __future__ import annotations

import logging

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.advantages import Discounts, Estimator, Need
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.advantages.registry import CLEARED, OPTIONS
from docagent_rl.advantages.rehearsal import rehearse
from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun
from docagent_rl.checks.data import image_tokens_of
from docagent_rl.envs.roles import RoleBackend, RoleName
from docagent_rl.systems import SYSTEMS
from docagent_rl.training.plugin import TRAINER_MODES
from docagent_rl.training.settings.keys import check_values, refuse_unknown_keys
from docagent_rl.training.trainer.estimators import alone_in_group, known_estimators, our_estimator

logger = logging.getLogger(__name__)

ROLE_PROMPT_TOKENS = 768
"""What a role's prompt and the question take beside the material."""


def check_keys(config: DictConfig) -> None:
    """Refuse keys that nothing reads, values that no run can have and interpolations that lead nowhere.

    Raises:
        UserError: names all keys of the first kind of problem.
    """
    try:
        refuse_unknown_keys(config)
        OmegaConf.to_container(config.docagent, resolve=True)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    check_values(config)
    if OmegaConf.is_missing(config.docagent, "system"):
        raise UserError(
            f"docagent.system is not set: give {', '.join(SYSTEMS)}, or package.module:SYSTEM of your own"
        )


def check_budget(run: PlannedRun) -> None:
    """Refuse a context that cannot hold the largest images that the system may show.

    Raises:
        UserError: `image tokens + turns * least tokens a turn` exceeds the response region, or the context of
            the rollout server is shorter than prompt and response together.
    """
    _check_tokens(run, run.env.max_image_tokens)


def check_budget_by_documents(run: PlannedRun) -> None:
    """Do the same, and where the largest image is too large, go by the pages of the store, if there is one.

    Raises:
        UserError: as `check_budget`.
    """
    try:
        check_budget(run)
    except UserError:
        _check_tokens(run, image_tokens_of(run))


def _check_tokens(run: PlannedRun, image_tokens: int) -> None:
    data, most = run.config.data, run.config.actor_rollout_ref.rollout.max_model_len
    turns, least = run.system.max_turns(run.env), run.section.rollout.min_turn_tokens
    needed = image_tokens + turns * least
    if needed > data.max_response_length:
        raise UserError(
            f"impossible budget: images of up to {image_tokens} tokens in all and {turns} turns of at "
            f"least docagent.rollout.min_turn_tokens={least} need {needed} tokens, "
            f"data.max_response_length is {data.max_response_length}"
        )
    context = data.max_prompt_length + data.max_response_length
    if most is not None and most < context:
        raise UserError(
            f"actor_rollout_ref.rollout.max_model_len={most} is shorter than "
            f"data.max_prompt_length + data.max_response_length = {context}"
        )


def check_estimator(run: PlannedRun) -> None:
    """Check the estimator of advantages: its name, trainer mode, options, critic and embedder.

    Ours is called once on a made-up batch.

    Raises:
        UserError: the estimator is not registered, or something that it needs is missing.
    """
    name, known = str(run.config.algorithm.adv_estimator), known_estimators()
    if name not in known:
        raise UserError(f"algorithm.adv_estimator={name} is not registered; known: {', '.join(known)}")
    estimator = our_estimator(name)
    if estimator is None:
        _check_verls_estimator(run, name)
    else:
        _check_our_estimator(run, estimator)


def _check_verls_estimator(run: PlannedRun, name: str) -> None:
    if any(value is not None for value in run.section.advantage.options.values()):
        raise UserError(
            f"{OPTIONS}: algorithm.adv_estimator={name} is an estimator of verl and does not read them; "
            f"{CLEARED}"
        )
    if doubt := alone_in_group(name):
        logger.warning(doubt)


def _check_our_estimator(run: PlannedRun, estimator: Estimator) -> None:
    config, settings = run.config, run.section.advantage
    algorithm, mode = config.algorithm, str(config.trainer.v1.trainer_mode)
    if not algorithm.get("norm_adv_by_std_in_grpo", True):
        raise UserError(
            "algorithm.norm_adv_by_std_in_grpo=false is read by verl's own estimators, and not by "
            f"{estimator.name}: set an option of its own, such as docagent.advantage.options.std=none"
        )
    if mode not in TRAINER_MODES:
        raise UserError(
            f"algorithm.adv_estimator={estimator.name} needs a trainer mode of this package, not "
            f"trainer.v1.trainer_mode={mode}; there are {', '.join(TRAINER_MODES)}"
        )
    estimator.parse(settings.options)
    if Need.VALUES in estimator.needs and not config.critic.enable:
        raise UserError(f"algorithm.adv_estimator={estimator.name} reads a critic: set critic.enable=true")
    if estimator.embeds:
        check_embedder(settings.embedder, str(config.trainer.device))
    doubt = rehearse(
        estimator,
        settings.options,
        trajectories=config.actor_rollout_ref.rollout.n,
        critic=bool(config.critic.enable),
        discounts=Discounts(algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn),
    )
    if doubt is not None:
        logger.warning("%s; a run may go otherwise", doubt)


def check_policy_roles(run: PlannedRun) -> None:
    """Refuse a context that cannot hold the material which the policy reads as answer agent.

    Raises:
        UserError: `max_model_len` is too short.
    """
    role = run.section.roles.get(RoleName.ANSWER)
    room = run.config.actor_rollout_ref.rollout.max_model_len
    if role is None or role.backend is not RoleBackend.POLICY or room is None:
        return
    material = run.env.answer.max_tokens
    needed = material + role.max_tokens + ROLE_PROMPT_TOKENS
    if needed > room:
        raise UserError(
            f"roles.answer.backend is policy: material of docagent.env.answer.max_tokens={material}, a "
            f"prompt of about {ROLE_PROMPT_TOKENS} and a reply of docagent.roles.answer.max_tokens="
            f"{role.max_tokens} need {needed} tokens, actor_rollout_ref.rollout.max_model_len is {room}"
        )
