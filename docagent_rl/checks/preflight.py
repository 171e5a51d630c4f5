"""Checks a configuration before Ray starts: one clear error each, naming the offender."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from docagent_rl.advantages import Discounts, Need
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.advantages.registry import CLEARED, OPTIONS
from docagent_rl.advantages.rehearsal import rehearse
from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import import_module
from docagent_rl.checkpoints.resume import settle_resume
from docagent_rl.checks.budget_table import check_memory
from docagent_rl.checks.cluster import check_cluster, leave_out_own_ray
from docagent_rl.checks.environment import settle_environment
from docagent_rl.checks.preflight_data import check_questions, image_tokens_of
from docagent_rl.checks.preflight_places import check_places
from docagent_rl.checks.refusal import refuse
from docagent_rl.checks.service_checks import check_search_servers, check_second_ranking, check_stand_ins
from docagent_rl.checks.start import end_earlier, pass_on_environment
from docagent_rl.checks.surroundings import check_folders, check_machine, check_names
from docagent_rl.checks.weight_transfer import check_bucket
from docagent_rl.config import DocAgentConfig, data_files, plain
from docagent_rl.envs.roles import RoleBackend, RoleName, make_roles
from docagent_rl.losses.aggregation import check_loss
from docagent_rl.losses.checks import check_kl
from docagent_rl.records.parquet import AGENT_NAME, read_table, validate_parquet
from docagent_rl.retrieval.opening import search_servers
from docagent_rl.rewards.judge import make_judge
from docagent_rl.rollout.playability import listed
from docagent_rl.systems import get_system
from docagent_rl.training.loopback import keep_to_loopback
from docagent_rl.training.platforms.detect import is_cpu_platform
from docagent_rl.training.plugin import TRAINER_MODES
from docagent_rl.training.settings.arithmetic import check_sizes
from docagent_rl.training.settings.frozen_checks import check_frozen, check_vision
from docagent_rl.training.settings.keys import unknown_keys
from docagent_rl.training.settings.opening_check import check_openings
from docagent_rl.training.settings.server_cache import size_server_cache
from docagent_rl.training.settings.values import check_by_verl, check_mode, check_values
from docagent_rl.training.trainer.estimators import (
    alone_in_group,
    known_estimators,
    load_modules,
    our_estimator,
)

logger = logging.getLogger(__name__)

_AGENT_LOOPS = "actor_rollout_ref.rollout.agent.agent_loop_config_path"
ROLE_PROMPT_TOKENS = 768
"""What a role's prompt and the question take beside the material."""


NO_MULTIRUN = (
    "--multirun (-m, hydra.mode=MULTIRUN) is not supported: its runs would share one process and one Ray, "
    "and none would get what the checks before a run settle. Give the command once for each run, with a "
    "trainer.experiment_name of its own: for lr in 1e-6 2e-6; do python -m verl.trainer.main_ppo ... "
    "actor_rollout_ref.actor.optim.lr=$lr trainer.experiment_name=lr_$lr; done"
)


class UnknownEstimatorError(UserError):
    """`algorithm.adv_estimator` names nothing that is registered; everything else about the run is in order.

    Args:
        estimator: the name.
        known: what is registered.
    """

    def __init__(self, estimator: str, known: Sequence[str]) -> None:
        super().__init__(f"algorithm.adv_estimator={estimator} is not registered; known: {', '.join(known)}")
        self.estimator = estimator


class Preflight(Callback):
    """Hydra callback of every recipe: refuses a run that cannot work, or that could not be checked.

    Hydra turns exceptions of callbacks into warnings, so problems end the process by `SystemExit`.
    """

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Run every check in the driver, before the trainer's main function.

        Hydra calls that function with a copy made right after this: what is changed here reaches the run.
        """
        try:
            settle_environment(config)
            check_folders(config)  # before Hydra writes to them
            end_earlier(config)  # before memory is looked at
            parsed = check(config)
            _size_server_cache(config, parsed)
            settle_resume(config, parsed.checkpoint_check)
            pass_on_environment(config)
            keep_to_loopback(config)
            leave_out_own_ray(config)
        except Exception as error:  # whatever it is: a run that was not checked must not start
            refuse(error, config)

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse `--multirun`: its jobs would not get what the checks settle, and share one process and Ray.

        Of a job Hydra tells only after it has copied the job's configuration.
        """
        refuse(UserError(NO_MULTIRUN), config)


def check(config: DictConfig) -> DocAgentConfig:
    """Check a composed configuration.

    Raises:
        UserError: the first problem found: unknown keys, a missing store, index, data file or model, data
            that do not fit the store, an impossible token budget, a judge that does not answer.
    """
    parsed = check_statically(config, documents=True)
    check_stand_ins(parsed, get_system(parsed.system))
    _check_device(config)
    check_cluster(config, parsed)
    check_machine(config)
    check_sizes(config)
    check_by_verl(config)
    check_memory(config, parsed)
    check_places(config)
    provider = _provider(parsed.provision)
    if provider:
        provider.provide_data(config, parsed)
    _check_data(config, parsed)
    asyncio.run(_check_services(parsed))  # before what takes longer
    if provider:
        provider.provide_model(config, parsed)
    _check_model(config, parsed)
    check_questions(config, parsed)
    check_openings(config, parsed)
    return parsed


def _provider(name: str | None) -> Any | None:
    """The module that makes what a run lacks."""
    return import_module(name, f"docagent.provision={name}") if name else None


def _size_server_cache(config: DictConfig, parsed: DocAgentConfig) -> None:
    env = get_system(parsed.system).parse_config(parsed.env)
    size_server_cache(config, image_tokens=env.max_image_tokens)


async def _check_services(parsed: DocAgentConfig) -> None:
    """Ask the judge, every role and every retriever that is served by somebody else for a sign of life."""
    store = parsed.open_store()
    roles, servers = make_roles(parsed.roles, store), search_servers(parsed.retrievers(), store)
    checks = (*roles.values(), *servers.values())
    await asyncio.gather(make_judge(parsed.judge).check(), *(each.check() for each in checks))


def check_statically(config: DictConfig, *, documents: bool = False) -> DocAgentConfig:
    """Check what the configuration alone tells: keys, types, prompt, budgets, estimator.

    Args:
        config: the composed configuration.
        documents: go by the pages of the store, if there is one, where the largest image shown exceeds a
            budget: pages may be smaller.

    Returns:
        The section `docagent`.

    Raises:
        UnknownEstimatorError: the estimator is not registered, which is looked at last.
        UserError: the first problem found.
    """
    try:
        written = plain(config, resolve=False)
        section = plain(config.docagent)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    written.pop("hydra", None)
    problems = unknown_keys(written)
    if problems:
        raise UserError("unknown configuration keys, which nothing would read:\n  " + "\n  ".join(problems))
    check_values(config)
    parsed = DocAgentConfig.parse(section)
    load_modules(parsed.modules)
    check_mode(config)
    system = get_system(parsed.system)
    if parsed.profile is not None:
        system.parse_config(section.get("env") or {})  # also what a profile puts other values in the place of
    env = system.parse_config(parsed.env)
    check_second_ranking(parsed, system, env)
    check_search_servers(parsed, env)
    system.load_prompt(env, parsed.prompt)
    try:
        check_budget(config, parsed, env.max_image_tokens, system.max_turns(env))
    except UserError:
        if not documents:
            raise
        shown = image_tokens_of(parsed, env, system.max_images(env), env.max_image_tokens)
        check_budget(config, parsed, shown, system.max_turns(env))
    estimator, known = str(config.algorithm.adv_estimator), known_estimators()
    if estimator not in known:
        raise UnknownEstimatorError(estimator, known)
    _check_estimator(config, parsed)
    check_kl(parsed.kl, config)
    check_loss(parsed.loss, parsed.kl, config)
    _check_policy_roles(config, parsed, env)
    check_frozen(config, parsed)
    return parsed


def _check_estimator(config: DictConfig, parsed: DocAgentConfig) -> None:
    """An estimator of ours: trainer mode, options, critic, embedder."""
    estimator = our_estimator(config.algorithm.adv_estimator)
    settings = parsed.advantage
    if estimator is None:
        if any(value is not None for value in settings.options.values()):
            raise UserError(
                f"{OPTIONS}: algorithm.adv_estimator={config.algorithm.adv_estimator} is an estimator of "
                f"verl and does not read them; {CLEARED}"
            )
        if doubt := alone_in_group(config.algorithm.adv_estimator):
            logger.warning(doubt)
        return
    if not config.algorithm.get("norm_adv_by_std_in_grpo", True):
        raise UserError(
            "algorithm.norm_adv_by_std_in_grpo=false is read by verl's own estimators, and not by "
            f"{estimator.name}: set an option of its own, such as docagent.advantage.options.std=none"
        )
    mode = str(config.trainer.v1.trainer_mode)
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
    algorithm = config.algorithm
    doubt = rehearse(
        estimator,
        settings.options,
        sessions=config.actor_rollout_ref.rollout.n,
        critic=bool(config.critic.enable),
        discounts=Discounts(algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn),
    )
    if doubt is not None:
        logger.warning("%s; a run may go otherwise", doubt)


def _check_policy_roles(config: DictConfig, parsed: DocAgentConfig, env: Any) -> None:
    """The policy as answer agent reads more than a seeker's prompt: its server has to take it."""
    role, room = parsed.roles.get(RoleName.ANSWER), config.actor_rollout_ref.rollout.max_model_len
    if role is None or role.backend is not RoleBackend.POLICY or room is None:
        return
    needed = env.answer.max_tokens + role.max_tokens + ROLE_PROMPT_TOKENS
    if needed > room:
        raise UserError(
            "roles.answer.backend is policy: material of "
            f"docagent.env.answer.max_tokens={env.answer.max_tokens}, a prompt of about {ROLE_PROMPT_TOKENS} "
            f"and a reply of docagent.roles.answer.max_tokens={role.max_tokens} need {needed} tokens, "
            f"actor_rollout_ref.rollout.max_model_len is {room}"
        )


def _check_device(config: DictConfig) -> None:
    if config.trainer.device == "cpu" and not is_cpu_platform():
        raise UserError(
            "trainer.device is cpu, but this machine has an accelerator: set VERL_PLATFORM=cpu as well"
        )
    if config.trainer.device != "cpu" and is_cpu_platform():
        raise UserError(
            f"trainer.device is {config.trainer.device}, but there is no accelerator here: add +profile=cpu, "
            "which runs a tiny model on the data of this workspace and changes none of them"
        )


def _check_model(config: DictConfig, parsed: DocAgentConfig) -> None:
    """A model given as a path has to be there; names of a hub are left to the loader."""
    path = str(config.actor_rollout_ref.model.path)
    looks_local = path.startswith(("/", ".", "~", f"{parsed.workspace}/"))
    if looks_local and not (Path(path).expanduser() / "config.json").is_file():
        raise UserError(f"actor_rollout_ref.model.path={path}: no model there (config.json is missing)")
    check_bucket(config)
    check_vision(config, parsed)


def _check_data(config: DictConfig, parsed: DocAgentConfig) -> None:
    from docagent_rl.rollout.env_resources import open_shown_store
    from docagent_rl.rollout.resources import open_retrievers

    store = parsed.open_store()
    open_shown_store(parsed, store)
    open_retrievers(parsed, store, running=False)
    for name in ("train_files", "val_files"):
        check_names((name, file) for file in data_files(config, name))
        for file in data_files(config, name):
            if not file.is_file():
                raise UserError(
                    f"data.{name}: {file} does not exist; `docagent-rl data convert` writes such files"
                )
            report = validate_parquet(file, store=store)
            if not report.ok:
                raise UserError(listed(report.problems))
            _check_agents(config, file)


def _check_agents(config: DictConfig, file: Path) -> None:
    known = {AGENT_NAME}
    extra = OmegaConf.select(config, _AGENT_LOOPS)
    if extra:
        known |= agent_loops(extra)
    unknown = set(read_table(file, columns=["agent_name"])["agent_name"].to_pylist()) - known
    if unknown:
        raise UserError(
            f"{file}: agent_name {min(unknown)!r} is not among {', '.join(sorted(known))}; "
            f"loops of your own are listed in {_AGENT_LOOPS}"
        )


def agent_loops(path: str) -> set[str]:
    """The names in a file of agent loops, as verl reads it.

    Raises:
        UserError: it cannot be read, or is no list of loops with names.
    """
    try:
        loops = OmegaConf.load(path)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UserError(f"{_AGENT_LOOPS}={path}: cannot be read ({error})") from error
    listed = loops if isinstance(loops, ListConfig) else [None]
    named = [loop.get("name") if isinstance(loop, DictConfig) else None for loop in listed]
    names = [name for name in named if isinstance(name, str)]
    if len(names) < len(named):
        raise UserError(f"{_AGENT_LOOPS}={path}: has to be a list of loops, each with a `name`")
    return set(names)


def check_budget(config: DictConfig, parsed: DocAgentConfig, image_tokens: int, max_turns: int) -> None:
    """Refuse a context that cannot hold what the system may show.

    Args:
        config: the composed configuration.
        parsed: its section `docagent`.
        image_tokens: visual tokens of an episode at most.
        max_turns: assistant turns of an episode at most.

    Raises:
        UserError: `image tokens + turns * least tokens a turn` exceeds the response region, or the context of
            the rollout server is shorter than prompt and response together.
    """
    data, rollout = config.data, config.actor_rollout_ref.rollout
    least = parsed.rollout.min_turn_tokens
    needed = image_tokens + max_turns * least
    if needed > data.max_response_length:
        raise UserError(
            f"impossible budget: images of up to {image_tokens} tokens in all and {max_turns} turns of at "
            f"least docagent.rollout.min_turn_tokens={least} need {needed} tokens, "
            f"data.max_response_length is {data.max_response_length}"
        )
    context = data.max_prompt_length + data.max_response_length
    if rollout.max_model_len is not None and rollout.max_model_len < context:
        raise UserError(
            f"actor_rollout_ref.rollout.max_model_len={rollout.max_model_len} is shorter than "
            f"data.max_prompt_length + data.max_response_length = {context}"
        )
