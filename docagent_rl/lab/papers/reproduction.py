"""Compose the chain of stages that reproduces a paper."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from docagent_rl.base.errors import UserError
from docagent_rl.checks.placement.start import DEVICES
from docagent_rl.lab.papers.data_stages import data_stages
from docagent_rl.lab.papers.evaluation_stages import evaluation_stages
from docagent_rl.lab.papers.machine import wanted
from docagent_rl.lab.papers.setting import LITERAL, Beginning, Setting
from docagent_rl.lab.papers.training_stages import model_stages, training_stages
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.stage import ChainStage, Service


@dataclass(frozen=True, slots=True)
class ServiceWithoutGpu:
    """A service that stages of a chain need and for which no GPU is left."""

    name: str
    sentence: str
    """A sentence that says what it needs, for which stages, and how to name a server elsewhere."""
    optional: bool
    """True if only the report needs it, where the embedded rule judge replaces it."""


def reproduction(setting: Setting, resume_command: str) -> Chain:
    """Return the stages of a setting with the services that they need.

    `resume_command` is the command that runs them again.

    Raises:
        UserError: the chosen beginning needs weights that are not published, or `--literal` was
            given and would change nothing.
    """
    _check(setting)
    return Chain(
        f"reproduce {setting.manifest.system}{' --miniature' if setting.miniature else ''}",
        list(_stages(setting)),
        setting.workspace,
        resume_command,
        list(_services(setting)),
    )


def _check(setting: Setting) -> None:
    title = setting.manifest.title
    if setting.literal and not setting.has_literal:
        raise UserError(
            f"--{LITERAL} changes nothing for {setting.model.recipe} ({title}): "
            f"{setting.manifest.literal}"
        )
    if setting.beginning is Beginning.WEIGHTS and setting.miniature:
        raise UserError("--miniature creates a tiny model: leave out --from weights")
    if setting.beginning is Beginning.WEIGHTS and setting.model.weights is None:
        others = [each.recipe for each in setting.manifest.models if each.weights is not None]
        hint = f"; --recipe {' or '.join(others)} has some" if others else ""
        raise UserError(
            f"--from weights: no published weights of {title} for {setting.model.recipe} are "
            f"known{hint}. --from sft starts from a fine-tuned model of yours, --from scratch from "
            "the base model"
        )


def _stages(setting: Setting) -> Iterator[ChainStage]:
    yield from data_stages(setting)
    yield from model_stages(setting)
    if setting.trains:
        yield from training_stages(setting)
    yield from evaluation_stages(setting)


def _services(setting: Setting) -> Iterator[Service]:
    """Yield the servers that are started on this machine, each on its GPUs."""
    for name, start in setting.placement.services.items():
        known = setting.manifest.services[name]
        command = f"exec {shlex.join(start.words)} {known.options}".rstrip()
        ready = f"http://127.0.0.1:{known.port}/health"
        gpus = len(start.environment[DEVICES].split(","))
        yield Service(name, command, ready, start.environment, gpus, after=start.after)


def services_without_gpu(setting: Setting, chain: Chain) -> list[ServiceWithoutGpu]:
    """Return the services that stages of a chain need and for which no GPU is left."""
    found = []
    for name in setting.placement.elsewhere:
        service = setting.manifest.services[name]
        asks = [stage.name for stage in chain.stages if _asks(setting, stage, name)]
        if asks and wanted(service):
            optional = asks == ["report"]
            machine = f"{setting.machine.gpus} GPUs ({setting.machine.card})"
            if service.served:
                lack = f"does not fit beside the others on {machine}: serve it elsewhere, and"
            else:
                lack = "is an external API:"
            sentence = (
                f"{setting.served(service)} {lack} set {service.variable} to its address (for "
                f"{', '.join(asks)})"
            )
            if optional:
                sentence += "; otherwise the embedded rule judge replaces it"
            found.append(ServiceWithoutGpu(name, sentence, optional))
    return found


def _asks(setting: Setting, stage: ChainStage, name: str) -> bool:
    """Return whether a stage asks a service."""
    service = setting.manifest.services[name]
    if stage.name == "report":
        return name == setting.manifest.judge
    if stage.name.startswith("evaluate_"):
        return service.plays
    return service.in_training and stage.name in ("collect", "pool", "rl")
