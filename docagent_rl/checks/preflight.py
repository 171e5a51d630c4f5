"""The checks of a run before Ray starts, which report one clear error that names the key at
fault.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal
from docagent_rl.base.user_code import MODULES_VARIABLE, import_module
from docagent_rl.checkpoints.resume import choose_checkpoint
from docagent_rl.checks import budget_table, configuration, data, machine
from docagent_rl.checks.check import Check, PlannedRun, When, refuse, run_checks
from docagent_rl.checks.environment import resolve_environment, resolve_folders, resolve_reward_file
from docagent_rl.checks.named_code import named_code_problems
from docagent_rl.checks.services import SERVICE_CHECKS, check_services
from docagent_rl.config import DocAgentConfig
from docagent_rl.console.opening import begin_console
from docagent_rl.console.overview import expectation, rl_facts
from docagent_rl.console.run_console import run_console
from docagent_rl.endpoints.http_client import past_proxies
from docagent_rl.losses.config import check_kl, check_loss
from docagent_rl.training.loopback import keep_to_loopback
from docagent_rl.training.settings import arithmetic, keys, models, trainer_modes
from docagent_rl.training.settings.combinations import combination_problems, strategy_problems
from docagent_rl.watch.processes import RUN_VARIABLE, earlier_starts, end_leftovers, note_start

logger = logging.getLogger(__name__)

TITLES_VARIABLE = "SPT_NOENV"
"""If this variable is not set, vLLM's engines overwrite their environment with their title, as
Ray's processes always do.
"""
NO_MULTIRUN = (
    "--multirun (-m) is not supported, because its runs would share one process and one Ray. Run "
    "the command once per run, each with its own trainer.experiment_name: for lr in 1e-6 2e-6; do "
    "... actor_rollout_ref.actor.optim.lr=$lr trainer.experiment_name=lr_$lr; done"
)

CONFIGURATION = When.RECIPE | When.TRAINING
MACHINE = When.TRAINING

CHECKS = (
    Check("trainer mode", CONFIGURATION, lambda run: keys.mode_problems(run.config)),
    Check("keys together", CONFIGURATION, lambda run: combination_problems(run.config)),
    Check(
        "servers of their own",
        CONFIGURATION,
        lambda run: trainer_modes.separate_problems(run.config),
    ),
    Check(
        "trackers", CONFIGURATION, lambda run: keys.tracker_problems(run.config, installed=False)
    ),
    Check("workspace", When.RECIPE, lambda run: _workspace(run)),
    Check("named code", CONFIGURATION, lambda run: named_code_problems(run.config)),
    *SERVICE_CHECKS,
    Check("token budget", CONFIGURATION, configuration.check_budget),
    Check("estimator", CONFIGURATION, configuration.check_estimator),
    Check("KL of observations", CONFIGURATION, lambda run: check_kl(run.section.kl, run.config)),
    Check(
        "loss", CONFIGURATION, lambda run: check_loss(run.section.loss, run.section.kl, run.config)
    ),
    Check("roles of the policy", CONFIGURATION, configuration.check_policy_roles),
    Check(
        "frozen tower", CONFIGURATION, lambda run: models.frozen_problems(run.config, run.section)
    ),
    Check("LoRA", CONFIGURATION, lambda run: models.adapter_problems(run.config)),
    Check("batches and GPUs", CONFIGURATION, lambda run: arithmetic.size_problems(run.config)),
    Check("heads and GPUs", CONFIGURATION, lambda run: arithmetic.head_problems(run.config)),
    Check("verl's own checks", CONFIGURATION, lambda run: arithmetic.verls_problems(run.config)),
    Check("engines", CONFIGURATION, lambda run: strategy_problems(run.config)),
    Check("verl's trainer", CONFIGURATION, lambda run: trainer_modes.trainer_problems(run.config)),
    Check("device", MACHINE, lambda run: machine.check_device(run.config)),
    Check("packages of trackers", MACHINE, lambda run: _tracker_packages(run.config)),
    Check("way of weights", MACHINE, lambda run: _way_of_weights(run.config)),
    Check("cluster", MACHINE, lambda run: machine.check_cluster(run.config)),
    Check("shared memory", MACHINE, lambda run: machine.check_shared_memory(run.config)),
    Check(
        "memory and disk", MACHINE, lambda run: budget_table.check_memory(run.config, run.section)
    ),
    Check("provision of data", MACHINE, lambda run: _provide("data", run)),
    Check("store, indexes and data files", MACHINE, data.check_files),
    Check("services", MACHINE, check_services),  # before the checks that take longer
    Check("provision of the model", MACHINE, lambda run: _provide("model", run)),
    Check(
        "model", MACHINE, lambda run: machine.check_model_path(run.config, run.section.workspace)
    ),
    Check(
        "model family",
        MACHINE,
        lambda run: models.family_problems(run.config, run.section, run.env),
    ),
    Check("adapters of the tower", MACHINE, lambda run: models.tower_problems(run.config)),
    Check("questions", MACHINE, data.check_questions),
    Check("their prompts", MACHINE, lambda run: data.check_openings(run.config, run.section)),
)
"""All checks of a reinforcement learning run, in the order in which they run."""


def _workspace(run: PlannedRun) -> Iterable[str]:
    """Check the workspace, which a profile's module may fill."""
    filled = run.section.provision is not None
    return configuration.workspace_problems(run.section.workspace, filled=filled)


def _tracker_packages(config: DictConfig) -> Iterator[str]:
    """Check the packages of trackers, unless the trainer may run on another machine of a
    cluster.
    """
    return keys.tracker_problems(config, installed=machine.attachment(config) is None)


def _way_of_weights(config: DictConfig) -> Iterable[str]:
    """Check the backend that sends weights, unless the trainer may run on another machine."""
    return trainer_modes.backend_problems(config) if machine.attachment(config) is None else ()


def _provide(part: str, run: PlannedRun) -> None:
    """Let a profile's module create the data or the model that a run lacks."""
    if name := run.section.provision:
        module: Any = import_module(name, f"docagent.provision={name}")
        getattr(module, f"provide_{part}")(run.config, run.section)


def check_statically(config: DictConfig) -> DocAgentConfig:
    """Run the checks that only need the configuration, and return its section `docagent`."""
    return check(config, When.RECIPE)


def check(config: DictConfig, when: When = When.TRAINING) -> DocAgentConfig:
    """Run all checks of an occasion on a composed configuration; return its section `docagent`.

    Raises:
        UserError: a check has found problems; later checks are not run.
        InfrastructureError: a service does not respond.
    """
    configuration.check_keys(config)
    run = PlannedRun.of(config)
    run_checks(CHECKS, when, run)
    return run.section


class Preflight(Callback):
    """Hydra callback of every recipe: refuses a run that cannot work or could not be checked."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Run every check in the driver, before the trainer's main function.

        Hydra copies the configuration for that function after this callback, so that changes made
        here reach the run.
        """
        try:
            resolve_environment(config)
            resolve_reward_file(config)
            machine.check_folders(config)  # before Hydra writes to them
            machine.hold_run_folder(config)  # before leftovers of an earlier start are ended
            begin_console(config, rl_facts, expectation(config))
            end_earlier(config)  # before memory is checked
            section = check(config)
            resolve_folders(config)  # after the check that refuses relative paths on a cluster
            choose_checkpoint(config, section.checkpoint_check)
            pass_on_environment(config)
            keep_to_loopback(config)
            machine.leave_out_own_ray(config)
            _seal_of(config).begin(_configuration(config))
        except Exception as error:  # any error: a run that was not checked must not start
            refuse(error, config)

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Seal the configuration, which Hydra has just written to the folder of the run."""
        _seal_of(config).complete(_configuration(config))
        if (console := run_console()) is not None:
            console.begin("Ray")

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Refuse `--multirun`: Hydra calls back for a job only after copying its configuration."""
        refuse(UserError(NO_MULTIRUN), config)


def _seal_of(config: DictConfig) -> Seal:
    return Seal(Path(str(config.docagent.run_dir)))


def _configuration(config: DictConfig) -> list[Path]:
    """Return the files that Hydra writes to the folder of a run."""
    return [
        _seal_of(config).root / "hydra" / f"{name}.yaml"
        for name in ("config", "hydra", "overrides")
    ]


def end_earlier(config: DictConfig) -> None:
    """End the processes on this machine of earlier starts of the run whose drivers were killed.

    Raises:
        UserError: the driver of an earlier start is still running.
    """
    if ended := end_leftovers(earlier_starts(Path(str(config.docagent.run_dir)))):
        logger.warning("ended processes of an earlier start of this run: %s", ", ".join(ended))


def pass_on_environment(config: DictConfig) -> None:
    """Set environment variables for all processes of the run, on all nodes.

    They contain the id of this start, the user's modules, whether the run attaches to a running
    Ray, and exceptions from proxies for connections of a machine to itself.
    """
    # imported here because they import Ray, which takes seconds
    from docagent_rl.console.channel import CONSOLE_VARIABLE
    from docagent_rl.training.nodes import ATTACHED_VARIABLE

    variables = {RUN_VARIABLE: uuid4().hex[:12], TITLES_VARIABLE: "1", **past_proxies()}
    note_start(Path(str(config.docagent.run_dir)), variables[RUN_VARIABLE])
    if run_console() is not None:
        variables[CONSOLE_VARIABLE] = variables[RUN_VARIABLE]
    os.environ |= variables  # for the Ray that the run starts
    if modules := ",".join(config.docagent.get("modules") or ()):
        variables[MODULES_VARIABLE] = modules
    if machine.attachment(config) is not None:
        variables[ATTACHED_VARIABLE] = "1"
    with open_dict(config):
        for name, value in variables.items():
            OmegaConf.update(config, f"ray_kwargs.ray_init.runtime_env.env_vars.{name}", value)
