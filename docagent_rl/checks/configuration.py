"""Checks of what the configuration alone tells, and of the services that it names.

Keys, token budgets, estimator, roles of the policy; rankings, search servers, stand-ins for models.
"""

from __future__ import annotations

import asyncio
import logging

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.advantages import Discounts, Need
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.advantages.registry import CLEARED, OPTIONS
from docagent_rl.advantages.rehearsal import rehearse
from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import ALWAYS, Check, PlannedRun, When
from docagent_rl.config import Profile
from docagent_rl.envs.role_client import make_roles
from docagent_rl.envs.roles import RoleBackend, RoleName
from docagent_rl.envs.services import NO_SECOND_RANKING
from docagent_rl.retrieval.config import Backend
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.judge import make_judge
from docagent_rl.systems import SYSTEMS
from docagent_rl.training.plugin import TRAINER_MODES
from docagent_rl.training.settings.keys import check_values, refuse_unknown_keys
from docagent_rl.training.trainer.estimators import alone_in_group, known_estimators, our_estimator

logger = logging.getLogger(__name__)

ROLE_PROMPT_TOKENS = 768
"""Tokens of a role's prompt and the question beside the material."""


def check_keys(config: DictConfig) -> None:
    """Refuse keys that nothing reads, values that no run can have and interpolations that lead nowhere.

    Raises:
        UserError: names all keys of the first kind of problem.
    """
    if OmegaConf.is_missing(config.docagent, "system"):
        raise UserError(
            f"docagent.system is not set: give {', '.join(SYSTEMS)}, or package.module:SYSTEM of your own"
        )
    try:
        refuse_unknown_keys(config)
        OmegaConf.to_container(config.docagent, resolve=True)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    check_values(config)


def check_budget(run: PlannedRun) -> None:
    """Refuse a context that cannot hold the largest images that the system may show.

    Raises:
        UserError: `image tokens + turns * least tokens a turn` exceeds the response region, or the context of
            the rollout server is shorter than prompt and response together.
    """
    data, most = run.config.data, run.config.actor_rollout_ref.rollout.max_model_len
    turns, least = run.system.max_turns(run.env), run.section.rollout.min_turn_tokens
    image_tokens = run.system.max_image_tokens(run.env)
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
    config, settings, known = run.config, run.section.advantage, known_estimators()
    algorithm, mode = config.algorithm, str(config.trainer.v1.trainer_mode)
    name = str(algorithm.adv_estimator)
    if name not in known:
        raise UserError(f"algorithm.adv_estimator={name} is not registered; known: {', '.join(known)}")
    estimator = our_estimator(name)
    if estimator is None:
        if any(value is not None for value in settings.options.values()):
            raise UserError(
                f"{OPTIONS}: algorithm.adv_estimator={name} is an estimator of verl and does not read them; "
                f"{CLEARED}"
            )
        if doubt := alone_in_group(name):
            logger.warning(doubt)
        return
    if not algorithm.get("norm_adv_by_std_in_grpo", True):
        raise UserError(
            "algorithm.norm_adv_by_std_in_grpo=false is read by verl's own estimators, and not by "
            f"{name}: set an option of its own, such as docagent.advantage.options.std=none"
        )
    if mode not in TRAINER_MODES:
        raise UserError(
            f"algorithm.adv_estimator={name} needs a trainer mode of this package, not "
            f"trainer.v1.trainer_mode={mode}; there are {', '.join(TRAINER_MODES)}"
        )
    estimator.parse(settings.options)
    if Need.VALUES in estimator.needs and not config.critic.enable:
        raise UserError(f"algorithm.adv_estimator={name} reads a critic: set critic.enable=true")
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


def check_second_ranking(run: PlannedRun) -> None:
    """See that there is a second ranking exactly where one is asked for.

    Raises:
        UserError: it is missing, or nothing would ask for it.
    """
    text, asked = run.section.text_retriever, run.system.two_rankings(run.env)
    if text is not None and not asked:
        raise UserError(
            f"docagent.text_retriever is set, but {run.system.name} asks docagent.retriever alone as it "
            "is configured: set docagent.text_retriever=null"
        )
    if text is None and asked:
        raise UserError(NO_SECOND_RANKING)


def check_search_devices(run: PlannedRun) -> None:
    """See that indexes on a GPU have one.

    Raises:
        UserError: an index is to lie on a GPU that none of its processes has.
    """
    for section, whole in run.section.retrievers().items():
        for key, each in whole.flat(section):
            host = each if whole.backend is Backend.LOCAL else whole  # parts are opened in its actors
            own = host.backend is Backend.RAY and host.service.num_gpus > 0
            if each.device not in (None, "cpu") and not own:
                raise UserError(
                    f"{key}.device={each.device}: every process that searches would hold the index on a GPU "
                    "of the run: set backend=ray and service.num_gpus=1 beside it, or device=null and "
                    "backend=http with a server (docagent-rl index serve --settings FILE)"
                )


def check_stand_ins(run: PlannedRun) -> None:
    """Refuse rules that would stand in for models without anybody having chosen them.

    The CPU profile chooses all of them.

    Raises:
        UserError: roles without a model or an explicit rule, or a judge of no kind; the message names them,
            the keys, and how to take the rules.
    """
    system, section = run.system, run.section
    if section.profile is Profile.CPU:
        return
    chosen = {role for role, config in section.roles.items() if config.backend is not None}
    if missing := [role for role in system.roles if role not in chosen]:
        keys = " ".join(f"docagent.roles.{role}.base_url=..." for role in missing)
        rules = " ".join(f"docagent.roles.{role}.backend=embedded" for role in missing)
        raise UserError(
            f"{system.name} has models play {', '.join(missing)}, and no endpoint is set for them. Serve "
            f"them and give {keys} (and .model, where it is null). Rules can play them instead, but then "
            f"this is not the paper's system: {rules}"
        )
    if system.judged and section.judge.kind is None:
        raise UserError(
            f"{system.name} has its answers judged, and no judge is chosen: set docagent.judge.kind=openai "
            "with docagent.judge.base_url and docagent.judge.model, or, which is not the paper's, one of the "
            "rules: docagent.judge.kind=rule (exact, anls, recall)"
        )


def check_services(run: PlannedRun) -> None:
    """Ask the judge, every role and every retriever that is served by somebody else for a sign of life.

    Raises:
        UserError: one cannot be asked as it is configured.
        InfrastructureError: one does not answer.
    """

    async def ask() -> None:
        store = run.section.open_store()
        roles = make_roles(run.section.roles, store)
        servers = search_servers(run.section.retrievers(), store)
        asked = (make_judge(run.section.judge), *roles.values(), *servers.values())
        await asyncio.gather(*(service.check() for service in asked))

    asyncio.run(ask())


SERVICE_CHECKS = (
    Check("second ranking", ALWAYS, check_second_ranking),
    Check("search devices", ALWAYS, check_search_devices),
    Check("prompt", ALWAYS, lambda run: run.system.load_prompt(run.env, run.section.prompt)),
    Check("stand-ins for models", When.TRAINING | When.PLAY, check_stand_ins),
)
"""Checks that run before trajectories are played without a trainer, too."""
