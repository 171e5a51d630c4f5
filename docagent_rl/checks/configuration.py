"""Checks that only need the configuration, and checks of the services that it names.

They cover keys, token budgets, the estimator and the roles of the policy; rankings, search servers,
the user's reward function, and rules that would replace models.
"""

import asyncio
import logging
from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.advantages import Discounts, Need
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.advantages.registry import CLEARED, OPTIONS
from docagent_rl.advantages.rehearsal import needs_groups, rehearse
from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import ALWAYS, Check, PlannedRun, When, refuse_for
from docagent_rl.config import DocAgentConfig, Profile
from docagent_rl.console.run_console import looking_at
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.envs.role_models import make_roles
from docagent_rl.envs.roles import ROLE_PROMPT_TOKENS, RoleBackend, RoleName
from docagent_rl.envs.services import NO_SECOND_RANKING
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.custom.config import KEY
from docagent_rl.rewards.custom.function import load_reward_function
from docagent_rl.rewards.judge import make_judge
from docagent_rl.systems import SYSTEMS
from docagent_rl.training.plugin import TRAINER_MODES
from docagent_rl.training.settings.keys import key_problems, reference
from docagent_rl.training.settings.ledger import ledger
from docagent_rl.training.settings.values import run_value_problems
from docagent_rl.training.trainer.estimators import (
    alone_in_group,
    compares,
    known_estimators,
    our_estimator,
    unavailable,
)

logger = logging.getLogger(__name__)

TRAJECTORIES = "actor_rollout_ref.rollout.n"


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
    known = known_estimators()
    algorithm = config.algorithm
    mode = str(config.trainer.v1.trainer_mode)
    name = str(algorithm.adv_estimator)
    key = f"algorithm.adv_estimator={name}"
    if name not in known:
        yield (
            f"{key} is not registered; add its module to docagent.modules, or use one of "
            f"{', '.join(known)}"
        )
        return
    estimator = our_estimator(name)
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


def _verls_estimator_problems(run: PlannedRun, name: str) -> Iterator[str]:
    """Check one of verl's own estimators: unused options, groups of one, missing inputs."""
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


def check_second_ranking(run: PlannedRun) -> Iterator[str]:
    """Check that a second retriever is configured if and only if the system uses one."""
    text = run.section.text_retriever
    asked = run.system.two_rankings(run.env)
    if text is not None and not asked:
        yield (
            f"docagent.text_retriever is set, but with these settings {run.system.name} only uses "
            "docagent.retriever: set docagent.text_retriever=null"
        )
    if text is None and asked:
        yield NO_SECOND_RANKING


def check_search_devices(run: PlannedRun) -> Iterator[str]:
    """Find indexes with a GPU as their device that no process of theirs has reserved."""
    for section, whole in run.section.retrievers().items():
        for key, each in whole.flat(section):
            # the parts of a remote retriever are opened in that retriever's own actors
            host = each if whole.backend is Backend.LOCAL else whole
            own = host.backend is Backend.RAY and host.service.num_gpus > 0
            if each.device not in (None, "cpu") and not own:
                yield (
                    f"{key}.device={each.device}: every process that searches would load the index "
                    "onto a GPU of the run: set backend=ray and service.num_gpus=1 as well, or "
                    "device=null and backend=http with a server (docagent-rl index serve "
                    "--settings FILE)"
                )


def check_stand_ins(run: PlannedRun) -> Iterator[str]:
    """Find roles, and a judge, that rules would replace although the user has not chosen rules.

    The CPU profile chooses rules for all of them.
    """
    system = run.system
    section = run.section
    if section.profile is Profile.CPU:
        return
    chosen = {role for role, config in section.roles.items() if config.backend is not None}
    if missing := [role for role in system.roles if role not in chosen]:
        keys = " ".join(f"docagent.roles.{role}.base_url=..." for role in missing)
        rules = " ".join(f"docagent.roles.{role}.backend=embedded" for role in missing)
        yield (
            f"{system.name} needs models for the roles {', '.join(missing)}, but no endpoints are "
            f"set. Serve them and set {keys} (and .model where it is null). Rules can replace "
            f"them, but then this is not the paper's system: {rules}"
        )
    if system.judged and section.judge.kind is None:
        yield (
            f"{system.name} needs a judge for its answers, but none is set: set "
            "docagent.judge.kind=openai with docagent.judge.base_url and docagent.judge.model. "
            "A rule can replace it, which the paper does not do: docagent.judge.kind=rule "
            "(exact, anls, recall)"
        )


def check_prompt(run: PlannedRun) -> None:
    """Check that the prompt file has the parts and variables that the system needs."""
    run.system.load_prompt(run.env, run.section.prompt)


def check_reward_function(run: PlannedRun) -> Iterator[str]:
    """Load the user's reward function and check its signature without calling it.

    Raises:
        UserError: its file or module does not exist, or its name or signature is wrong.
    """
    former = OmegaConf.select(run.config, "custom_reward_function") or {}
    if former.get("path") is not None:
        yield (
            f"custom_reward_function is an old section of verl's: set {KEY}.path and .name instead"
        )
        return
    function = load_reward_function(run.section.reward_function)
    if function is None:
        return
    formula = None if run.system.formula is None else run.system.formula(run.env)
    if formula is not None and function.name in {*formula.weights, *formula.tokens, "total"}:
        yield (
            f"{KEY}.name={function.name}: {run.system.name} has a reward term of the same name, "
            "and both would be logged under it: rename the function"
        )


def check_services(run: PlannedRun) -> None:
    """Send a test request to the judge, to every role and to every remote retriever.

    Raises:
        UserError: a service is configured wrongly.
        InfrastructureError: a service does not respond.
    """

    async def ask() -> None:
        store = run.section.open_store()
        roles = make_roles(run.section.roles, store)
        servers = search_servers(run.section.retrievers(), store)
        looking_at(f"services: {', '.join(_served(run.section)) or 'none'}")
        asked = (make_judge(run.section.judge), *roles.values(), *servers.values())
        await asyncio.gather(*(service.check() for service in asked))

    asyncio.run(ask())


def _served(section: DocAgentConfig) -> Iterator[str]:
    """Name the judge, the roles and the retrievers that others serve, with their addresses."""
    if section.judge.base_url:
        yield f"judge at {public_url(section.judge.base_url)}"
    for name, role in section.roles.items():
        if role.base_url:
            yield f"{name.value} at {public_url(role.base_url)}"
    for key, retriever in section.retrievers().items():
        if retriever.service.url:
            yield f"{key} at {public_url(retriever.service.url)}"


SERVICE_CHECKS = (
    Check("second ranking", ALWAYS, check_second_ranking),
    Check("search devices", ALWAYS, check_search_devices),
    Check("prompt", ALWAYS, check_prompt),
    Check("reward function", ALWAYS, check_reward_function),
    Check("stand-ins for models", When.TRAINING | When.PLAY, check_stand_ins),
)
"""Checks that also run before trajectories are played without a trainer."""
