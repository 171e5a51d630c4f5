"""Checks of what the configuration alone tells, and of the services that it names.

Keys, token budgets, estimator, roles of the policy; rankings, search servers, the user's reward
function, stand-ins for models.
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
from docagent_rl.envs.roles import RoleBackend, RoleName
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

ROLE_PROMPT_TOKENS = 768
"""Tokens of a role's prompt and the question beside the material."""


def check_keys(config: DictConfig) -> None:
    """Refuse unknown keys, interpolations that lead nowhere, values that no run can have, and
    changed keys of verl's that nobody reads or that break a run.
    """
    if OmegaConf.is_missing(config.docagent, "system"):
        raise UserError(
            f"docagent.system is not set: give {', '.join(SYSTEMS)}, or package.module:SYSTEM of "
            "your own"
        )
    try:
        refuse_for(key_problems(config))
        OmegaConf.to_container(config.docagent, resolve=True)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    refuse_for([*run_value_problems(config), *ledger().problems(config, reference())])


def check_budget(run: PlannedRun) -> Iterator[str]:
    """Find a context that cannot hold the largest images and the least turns, or prompt and
    response.
    """
    data = run.config.data
    most = run.config.actor_rollout_ref.rollout.max_model_len
    turns = run.system.max_turns(run.env)
    least = run.section.rollout.min_turn_tokens
    image_tokens = run.system.max_image_tokens(run.env)
    needed = image_tokens + turns * least
    if needed > data.max_response_length:
        yield (
            f"impossible budget: images of up to {image_tokens} tokens in all and {turns} turns of "
            "at "
            f"least docagent.rollout.min_turn_tokens={least} need {needed} tokens, "
            f"data.max_response_length is {data.max_response_length}"
        )
    context = data.max_prompt_length + data.max_response_length
    if most is not None and most < context:
        yield (
            f"actor_rollout_ref.rollout.max_model_len={most} is shorter than "
            f"data.max_prompt_length + data.max_response_length = {context}"
        )


def check_estimator(run: PlannedRun) -> Iterator[str]:
    """Check the estimator of advantages: its name, trainer mode, options, critic and embedder.

    Ours is called once on a made-up batch.
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
            f"{key} is not registered; name its module in docagent.modules. Known: "
            f"{', '.join(known)}"
        )
        return
    estimator = our_estimator(name)
    if estimator is None:
        yield from _verls_estimator_problems(run, name)
        return
    if not algorithm.get("norm_adv_by_std_in_grpo", True):
        yield (
            "algorithm.norm_adv_by_std_in_grpo=false is read by verl's own estimators, and not by "
            f"{name}: set an option of its own, such as docagent.advantage.options.std=none"
        )
    if mode not in TRAINER_MODES:
        modes = ", ".join(TRAINER_MODES)
        yield (
            f"{key} needs a trainer mode of this package, not trainer.v1.trainer_mode={mode}: "
            f"{modes}"
        )
    estimator.parse(settings.options)
    if Need.VALUES in estimator.needs and not config.critic.enable:
        yield f"{key} reads a critic: set critic.enable=true"
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
        logger.warning("%s; a run may go otherwise", doubt)
    if trajectories == 1 and needs_groups(
        estimator, settings.options, critic=critic, discounts=discounts
    ):
        yield _alone(key, "every advantage would be 0")


def _verls_estimator_problems(run: PlannedRun, name: str) -> Iterator[str]:
    """Check an estimator of verl's own: options that it does not read, groups of one, missing
    inputs.
    """
    key = f"algorithm.adv_estimator={name}"
    if any(value is not None for value in run.section.advantage.options.values()):
        yield f"{OPTIONS}: {key} is an estimator of verl and does not read them; {CLEARED}"
    if reason := unavailable(name):
        yield f"{key} cannot run: {reason}"
    elif compares(name) and run.config.actor_rollout_ref.rollout.n == 1:
        yield _alone(key, "it would take plain rewards for advantages")
    elif doubt := alone_in_group(name):
        logger.warning(doubt)


def _alone(key: str, outcome: str) -> str:
    return (
        f"{key} compares the trajectories of a question, and {TRAJECTORIES}=1 leaves it one, so "
        "that "
        f"{outcome}: set {TRAJECTORIES}=2 or more"
    )


def check_policy_roles(run: PlannedRun) -> Iterator[str]:
    """Find a context that cannot hold the material which the policy reads as answer agent."""
    role = run.section.roles.get(RoleName.ANSWER)
    room = run.config.actor_rollout_ref.rollout.max_model_len
    if role is None or role.backend is not RoleBackend.POLICY or room is None:
        return
    material = run.env.answer.max_tokens
    needed = material + role.max_tokens + ROLE_PROMPT_TOKENS
    if needed > room:
        yield (
            "roles.answer.backend is policy: material of "
            f"docagent.env.answer.max_tokens={material}, a "
            f"prompt of about {ROLE_PROMPT_TOKENS} and a reply of docagent.roles.answer.max_tokens="
            f"{role.max_tokens} need {needed} tokens, actor_rollout_ref.rollout.max_model_len is "
            f"{room}"
        )


def check_second_ranking(run: PlannedRun) -> Iterator[str]:
    """See that there is a second ranking exactly where one is asked for."""
    text = run.section.text_retriever
    asked = run.system.two_rankings(run.env)
    if text is not None and not asked:
        yield (
            f"docagent.text_retriever is set, but {run.system.name} asks docagent.retriever alone "
            "as it "
            "is configured: set docagent.text_retriever=null"
        )
    if text is None and asked:
        yield NO_SECOND_RANKING


def check_search_devices(run: PlannedRun) -> Iterator[str]:
    """Find indexes that are to lie on a GPU which none of their processes has."""
    for section, whole in run.section.retrievers().items():
        for key, each in whole.flat(section):
            host = (
                each if whole.backend is Backend.LOCAL else whole
            )  # parts are opened in its actors
            own = host.backend is Backend.RAY and host.service.num_gpus > 0
            if each.device not in (None, "cpu") and not own:
                yield (
                    f"{key}.device={each.device}: every process that searches would hold the index "
                    "on a GPU "
                    "of the run: set backend=ray and service.num_gpus=1 beside it, or device=null "
                    "and "
                    "backend=http with a server (docagent-rl index serve --settings FILE)"
                )


def check_stand_ins(run: PlannedRun) -> Iterator[str]:
    """Find roles, and a judge, for which rules would stand in without anybody having chosen them.

    The CPU profile chooses all of them.
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
            f"{system.name} has models play {', '.join(missing)}, and no endpoint is set for them. "
            "Serve "
            f"them and give {keys} (and .model, where it is null). Rules can play them instead, "
            "but then "
            f"this is not the paper's system: {rules}"
        )
    if system.judged and section.judge.kind is None:
        yield (
            f"{system.name} has its answers judged, and no judge is chosen: set "
            "docagent.judge.kind=openai "
            "with docagent.judge.base_url and docagent.judge.model, or, which is not the paper's, "
            "one of the "
            "rules: docagent.judge.kind=rule (exact, anls, recall)"
        )


def check_prompt(run: PlannedRun) -> None:
    """See that the prompt file fits the system."""
    run.system.load_prompt(run.env, run.section.prompt)


def check_reward_function(run: PlannedRun) -> Iterator[str]:
    """Load the user's reward function and read its signature; it is not called.

    Raises:
        UserError: its file or module, its name or its signature is not what it has to be.
    """
    former = OmegaConf.select(run.config, "custom_reward_function") or {}
    if former.get("path") is not None:
        yield f"custom_reward_function is verl's former section: set {KEY}.path and .name instead"
        return
    function = load_reward_function(run.section.reward_function)
    if function is None:
        return
    formula = None if run.system.formula is None else run.system.formula(run.env)
    if formula is not None and function.name in {*formula.weights, *formula.tokens, "total"}:
        yield (
            f"{KEY}.name={function.name}: {run.system.name} has a reward term of that name, under "
            "which both "
            "would be logged: give the function another name"
        )


def check_services(run: PlannedRun) -> None:
    """Ask the judge, every role and every retriever that is served by somebody else for a sign of
    life.

    Raises:
        UserError: one cannot be asked as it is configured.
        InfrastructureError: one does not answer.
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
"""Checks that run before trajectories are played without a trainer, too."""
