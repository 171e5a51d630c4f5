"""Checks that only need the configuration: keys, the workspace, token budgets, the estimator and
the roles of the policy.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.advantages import Discounts, Need, registered_estimators
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.advantages.registry import CLEARED, OPTIONS
from docagent_rl.advantages.rehearsal import needs_groups, rehearse
from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun, refuse_for
from docagent_rl.envs.roles import ROLE_PROMPT_TOKENS, RoleBackend, RoleName
from docagent_rl.systems import SYSTEMS
from docagent_rl.training.settings.keys import key_problems, reference
from docagent_rl.training.settings.ledger import TRAINER_MODES, ledger
from docagent_rl.training.settings.values import run_value_problems

logger = logging.getLogger(__name__)

TRAJECTORIES = "actor_rollout_ref.rollout.n"

DEFAULT_WORKSPACE = Path("workspace")
"""The workspace of recipes, in the working folder, unless an override or a variable names one."""


def check_keys(config: DictConfig) -> None:
    """Refuse unknown keys, broken interpolations and invalid values, and changed verl keys that
    have no effect or break a run.
    """
    if OmegaConf.is_missing(config.docagent, "system"):
        raise UserError(
            f"docagent.system is not set: use one of {', '.join(SYSTEMS)}, or your own as "
            "package.module:SYSTEM"
        )
    try:
        refuse_for(key_problems(config))
        OmegaConf.to_container(config.docagent, resolve=True)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    refuse_for([*run_value_problems(config), *ledger().problems(config, reference())])


def workspace_problems(path: Path, *, filled: bool) -> Iterator[str]:
    """Find a workspace that is not a folder.

    A recipe's own workspace need not exist yet, nor one that is going to be `filled`, as by the CPU
    profile.
    """
    key = f"docagent.workspace={path}"
    place = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not place.is_dir():
        yield f"{key}: {place} is a file: name a folder"
    elif not (path.exists() or filled or path == DEFAULT_WORKSPACE):
        yield (
            f"{key}: there is no such folder: name the one with your documents (or with "
            f"DOCAGENT_WORKSPACE=FOLDER), or make it: docagent-rl ingest PDFS --store {path}/store"
        )


def check_budget(run: PlannedRun) -> Iterator[str]:
    """Find a context that is too small for the largest images and the shortest turns, or for prompt
    and response.
    """
    data = run.config.data
    most = run.config.actor_rollout_ref.rollout.max_model_len
    turns = run.system.max_turns(run.env)
    least = run.section.rollout.min_turn_tokens
    image_tokens = run.system.max_image_tokens(run.env)
    needed = image_tokens + turns * least
    if needed > data.max_response_length:
        yield (
            f"the response is too short: images of up to {image_tokens} tokens in total and "
            f"{turns} turns of at least docagent.rollout.min_turn_tokens={least} need {needed} "
            f"tokens, but data.max_response_length is {data.max_response_length}"
        )
    context = data.max_prompt_length + data.max_response_length
    if most is not None and most < context:
        yield (
            f"actor_rollout_ref.rollout.max_model_len={most} is shorter than "
            f"data.max_prompt_length + data.max_response_length = {context}"
        )


def check_estimator(run: PlannedRun) -> Iterator[str]:
    """Check the advantage estimator: its name, trainer mode, options, critic and embedder.

    An estimator of this package or of the user is called once on a made-up batch.
    """
    config = run.config
    settings = run.section.advantage
    algorithm = config.algorithm
    mode = str(config.trainer.v1.trainer_mode)
    name = str(algorithm.adv_estimator)
    key = f"algorithm.adv_estimator={name}"
    estimator = registered_estimators().get(name)
    if (estimator is None or not _all_ours()) and (problem := _unregistered(name)):
        yield problem
        return
    if estimator is None:
        yield from _verls_estimator_problems(run, name)
        return
    if not algorithm.get("norm_adv_by_std_in_grpo", True):
        yield (
            "algorithm.norm_adv_by_std_in_grpo=false only affects verl's own estimators, not "
            f"{name}: set one of its options, such as docagent.advantage.options.std=none"
        )
    if mode not in TRAINER_MODES:
        modes = ", ".join(TRAINER_MODES)
        yield (
            f"{key} does not work with trainer.v1.trainer_mode={mode}: use a trainer mode of this "
            f"package, {modes}"
        )
    estimator.parse(settings.options)
    if Need.VALUES in estimator.needs and not config.critic.enable:
        yield f"{key} needs a critic: set critic.enable=true"
        return
    if estimator.embeds:
        check_embedder(settings.embedder, str(config.trainer.device))
    discounts = Discounts(algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn)
    trajectories = config.actor_rollout_ref.rollout.n
    critic = bool(config.critic.enable)
    doubt = rehearse(
        estimator, settings.options, trajectories=trajectories, critic=critic, discounts=discounts
    )
    if doubt is not None:
        logger.warning("%s; it may still work on the batches of the run", doubt)
    if trajectories == 1 and needs_groups(
        estimator, settings.options, critic=critic, discounts=discounts
    ):
        yield _alone(key, "every advantage would be 0")


def _all_ours() -> bool:
    """Return whether this package defines all registered estimators; verl's have other names."""
    found = registered_estimators().values()
    return all(each.function.__module__.startswith("docagent_rl.") for each in found)


def _unregistered(name: str) -> str | None:
    """Return a sentence about an estimator that neither verl nor anyone else has registered."""
    from docagent_rl.training.trainer.estimators import known_estimators  # imports verl

    known = known_estimators()
    if name in known:
        return None
    return (
        f"algorithm.adv_estimator={name} is not registered; add its module to docagent.modules, "
        f"or use one of {', '.join(known)}"
    )


def _verls_estimator_problems(run: PlannedRun, name: str) -> Iterator[str]:
    """Check one of verl's own estimators: unused options, groups of one, missing inputs."""
    from docagent_rl.training.trainer.estimators import alone_in_group, compares, unavailable

    key = f"algorithm.adv_estimator={name}"
    if any(value is not None for value in run.section.advantage.options.values()):
        yield f"{OPTIONS} is set, but {key} is verl's estimator, which has no options; {CLEARED}"
    if reason := unavailable(name):
        yield f"{key} does not work here: {reason}"
    elif compares(name) and run.config.actor_rollout_ref.rollout.n == 1:
        yield _alone(key, "it would use plain rewards as advantages")
    elif doubt := alone_in_group(name):
        logger.warning(doubt)


def _alone(key: str, outcome: str) -> str:
    return (
        f"{key} compares the trajectories of a question, but {TRAJECTORIES}=1 samples only one, so "
        f"that {outcome}: set {TRAJECTORIES} to 2 or more"
    )


def check_policy_roles(run: PlannedRun) -> Iterator[str]:
    """Find a context that is too small for the material that the policy reads as answer agent."""
    role = run.section.roles.get(RoleName.ANSWER)
    room = run.config.actor_rollout_ref.rollout.max_model_len
    if role is None or role.backend is not RoleBackend.POLICY or room is None:
        return
    material = run.env.answer.max_tokens
    needed = material + role.max_tokens + ROLE_PROMPT_TOKENS
    if needed > room:
        yield (
            "roles.answer.backend=policy: material of "
            f"docagent.env.answer.max_tokens={material}, a prompt of about {ROLE_PROMPT_TOKENS} "
            f"tokens and a reply of docagent.roles.answer.max_tokens={role.max_tokens} need "
            f"{needed} tokens, but actor_rollout_ref.rollout.max_model_len is {room}"
        )
