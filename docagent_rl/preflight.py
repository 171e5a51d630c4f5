"""Checks a configuration before Ray starts: one clear error each, naming the offender."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.advantages import Need
from docagent_rl.advantages.embedder import check_embedder
from docagent_rl.config import DocAgentConfig
from docagent_rl.data.parquet import AGENT_NAME, validate_parquet
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.roles import make_roles
from docagent_rl.errors import UserError
from docagent_rl.losses.checks import check_kl
from docagent_rl.patches.weight_transfer_address import RUN_VARIABLE
from docagent_rl.platforms.detect import is_cpu_platform
from docagent_rl.plugin import MODULES_VARIABLE, TRAINER_MODES
from docagent_rl.rewards.judge import make_judge
from docagent_rl.systems import get_system
from docagent_rl.trainer.estimators import known_estimators, load_modules, our_estimator
from docagent_rl.trainer.keys import unknown_keys


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
    """Hydra callback of every recipe: refuses a run that cannot work.

    Hydra turns exceptions of callbacks into warnings, so problems end the process by `SystemExit`.
    """

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Run every check in the driver, before the trainer's main function."""
        try:
            check(config)
            pass_on_environment(config)
        except UserError as error:
            print(f"docagent-rl: {error}", file=sys.stderr)
            raise SystemExit(2) from error


def check(config: DictConfig) -> DocAgentConfig:
    """Check a composed configuration.

    Raises:
        UserError: the first problem found: unknown keys, a missing store, index, data file or model, data
            that do not fit the store, an impossible token budget, a judge that does not answer.
    """
    parsed = check_statically(config)
    _check_device(config)
    _check_paths(config)
    if parsed.auto_demo:
        _make_demo(config, parsed)
    for step in (_check_model, _check_data):
        step(config, parsed)
    asyncio.run(_check_services(parsed))
    return parsed


async def _check_services(parsed: DocAgentConfig) -> None:
    """Ask the judge and every role that is served by somebody else for a sign of life."""
    roles = make_roles(parsed.roles, DocumentStore(parsed.store))
    await asyncio.gather(make_judge(parsed.judge).check(), *(role.check() for role in roles.values()))


def check_statically(config: DictConfig) -> DocAgentConfig:
    """Check what the configuration alone tells: keys, types, prompt, budgets, estimator.

    Returns:
        The section `docagent`.

    Raises:
        UnknownEstimatorError: the estimator is not registered, which is looked at last.
        UserError: the first problem found.
    """
    try:
        plain = OmegaConf.to_container(config, resolve=False)
        section = OmegaConf.to_container(config.docagent, resolve=True)
        OmegaConf.to_container(config.trainer, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    plain.pop("hydra", None)
    problems = unknown_keys(plain)
    if problems:
        raise UserError("unknown configuration keys, which nothing would read:\n  " + "\n  ".join(problems))
    parsed = DocAgentConfig.parse(section)
    system = get_system(parsed.system)
    env = system.parse_config(parsed.env)
    system.load_prompt(env, parsed.prompt)
    check_budget(config, parsed, env.max_image_tokens, system.max_turns(env))
    load_modules(parsed.modules)
    estimator, known = str(config.algorithm.adv_estimator), known_estimators()
    if estimator not in known:
        raise UnknownEstimatorError(estimator, known)
    _check_estimator(config, parsed)
    check_kl(parsed.kl, config)
    return parsed


def _check_estimator(config: DictConfig, parsed: DocAgentConfig) -> None:
    """An estimator of ours: trainer mode, options, critic, embedder."""
    estimator = our_estimator(config.algorithm.adv_estimator)
    settings = parsed.advantage
    if estimator is None:
        if settings.options:
            raise UserError(
                f"docagent.advantage.options: algorithm.adv_estimator={config.algorithm.adv_estimator} is an "
                "estimator of verl and does not read them"
            )
        return
    mode = str(config.trainer.v1.trainer_mode)
    if mode not in TRAINER_MODES:
        raise UserError(
            f"algorithm.adv_estimator={estimator.name} needs a trainer mode of this package, not "
            f"trainer.v1.trainer_mode={mode}; there are {', '.join(TRAINER_MODES)}"
        )
    estimator.parse(settings.options)
    if Need.VALUES in estimator.needs and not config.critic.enable:
        raise UserError(f"algorithm.adv_estimator={estimator.name} reads a critic: set critic.enable=true")
    if Need.EMBEDDINGS in estimator.needs:
        check_embedder(settings.embedder)


def pass_on_environment(config: DictConfig) -> None:
    """Tell every process of the run, on all nodes, the run's id (see `patches/weight_transfer_address.py`)
    and which modules of the user to import (see `plugin`).
    """
    variables = {RUN_VARIABLE: uuid4().hex[:12]}
    if modules := ",".join(config.docagent.get("modules") or ()):
        variables[MODULES_VARIABLE] = modules
    with open_dict(config):
        for name, value in variables.items():
            OmegaConf.update(config, f"ray_kwargs.ray_init.runtime_env.env_vars.{name}", value)


def _check_device(config: DictConfig) -> None:
    if config.trainer.device == "cpu" and not is_cpu_platform():
        raise UserError(
            "trainer.device is cpu, but this machine has an accelerator: set VERL_PLATFORM=cpu as well"
        )
    if config.trainer.device != "cpu" and is_cpu_platform():
        raise UserError(
            f"trainer.device is {config.trainer.device}, but there is no accelerator here: add +profile=cpu"
        )


def _check_paths(config: DictConfig) -> None:
    """Relative paths mean the driver's folder; the workers of a running cluster have another."""
    address = OmegaConf.select(config, "ray_kwargs.ray_init.address")
    if address and not Path(config.docagent.workspace).is_absolute():
        raise UserError(
            f"docagent.workspace={config.docagent.workspace} is relative, but Ray connects to {address}: "
            "give an absolute path that every node sees"
        )


def _make_demo(config: DictConfig, parsed: DocAgentConfig) -> None:
    from docagent_rl.demo import DemoPaths, prepare_demo

    name = parsed.tiny_model or parsed.system
    # the section describes the environment of the run's own system only
    env = parsed.env if name == parsed.system else None
    if DemoPaths(parsed.workspace).missing(name):
        prepare_demo(parsed.workspace, progress=sys.stderr.isatty(), system=name, env=env)


def _check_model(config: DictConfig, parsed: DocAgentConfig) -> None:
    """A model given as a path has to be there; names of a hub are left to the loader."""
    path = str(config.actor_rollout_ref.model.path)
    looks_local = path.startswith(("/", ".", "~", f"{parsed.workspace}/"))
    if looks_local and not (Path(path).expanduser() / "config.json").is_file():
        raise UserError(f"actor_rollout_ref.model.path={path}: no model there (config.json is missing)")


def _check_data(config: DictConfig, parsed: DocAgentConfig) -> None:
    from docagent_rl.rollout.workshop import open_retriever

    store = DocumentStore(parsed.store)
    open_retriever(parsed, store)
    for name in ("train_files", "val_files"):
        files = OmegaConf.to_container(config.data, resolve=True)[name]
        for file in [files] if isinstance(files, str) else files:
            if not Path(file).is_file():
                raise UserError(
                    f"data.{name}: {file} does not exist; `docagent-rl data convert` writes such files"
                )
            report = validate_parquet(Path(file), store=store)
            if not report.ok:
                raise UserError(_listed(report.problems))
            _check_agents(config, Path(file))


def _check_agents(config: DictConfig, file: Path) -> None:
    known = {AGENT_NAME}
    extra = config.actor_rollout_ref.rollout.agent.agent_loop_config_path
    if extra:
        known |= {entry.name for entry in OmegaConf.load(extra)}
    unknown = set(pq.read_table(file, columns=["agent_name"])["agent_name"].to_pylist()) - known
    if unknown:
        raise UserError(
            f"{file}: agent_name {min(unknown)!r} is not among {', '.join(sorted(known))}; "
            "loops of your own are listed in actor_rollout_ref.rollout.agent.agent_loop_config_path"
        )


def _listed(problems: Sequence[str], most: int = 10) -> str:
    more = len(problems) - most
    return "\n  ".join([*problems[:most], *([f"and {more} more"] if more > 0 else [])])


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
