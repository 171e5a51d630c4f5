"""The chain of stages that reproduces a paper."""

from collections.abc import Iterator

from docagent_rl.base.errors import UserError
from docagent_rl.lab.papers.data_stages import data_stages
from docagent_rl.lab.papers.evaluation_stages import evaluation_stages
from docagent_rl.lab.papers.machine import cuda_devices, wanted
from docagent_rl.lab.papers.setting import LITERAL, Beginning, Setting
from docagent_rl.lab.papers.training_stages import model_stages, training_stages
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.stage import ChainStage, Service

_STANDS_IN = "; without, the rule judge stands in"


def reproduction(setting: Setting, resume_command: str) -> Chain:
    """Return the stages of a setting with the services that they need.

    `resume_command` is the command that runs them again.

    Raises:
        UserError: the paper has no weights to begin with, or no literal variant.
    """
    _check(setting)
    return Chain(
        list(_stages(setting)), setting.workspace, resume_command, list(_services(setting))
    )


def _check(setting: Setting) -> None:
    title = setting.manifest.title
    if setting.literal and not setting.has_literal:
        raise UserError(
            f"--{LITERAL} has nothing for {setting.model.recipe} ({title}): "
            f"{setting.manifest.literal}"
        )
    if setting.beginning is Beginning.WEIGHTS and setting.miniature:
        raise UserError("--miniature makes a model of its own: leave out --from weights")
    if setting.beginning is Beginning.WEIGHTS and setting.model.weights is None:
        others = [each.recipe for each in setting.manifest.models if each.weights is not None]
        hint = f"; there are of {', '.join(others)}: --recipe" if others else ""
        raise UserError(
            f"--from weights: no published weights of {title} for {setting.model.recipe} are "
            f"known here{hint}. --from sft begins with a fine-tuned model, --from scratch with none"
        )


def _stages(setting: Setting) -> Iterator[ChainStage]:
    yield from data_stages(setting)
    yield from model_stages(setting)
    if setting.trains:
        yield from training_stages(setting)
    yield from evaluation_stages(setting)


def _services(setting: Setting) -> Iterator[Service]:
    """Yield the servers that are started here, each on its GPUs."""
    for name, gpus in ({} if setting.miniature else setting.placement.services).items():
        known = setting.manifest.services[name]
        command = f"exec vllm serve {setting.served(known)} --port {known.port}"
        if len(gpus) > 1:
            command += f" --tensor-parallel-size {len(gpus)}"
        if known.options:
            command += f" {known.options}"
        ready = f"http://127.0.0.1:{known.port}/health"
        yield Service(name, command, ready, cuda_devices(gpus), len(gpus))


def unplaced(setting: Setting, chain: Chain) -> dict[str, str]:
    """Return a sentence for each service that stages of a chain need and for which no GPU is left.

    It is served elsewhere, and its variable has the address. Only the report does without: the
    embedded rule judge stands in.
    """
    found = {}
    for name in () if setting.miniature else setting.placement.elsewhere:
        service = setting.manifest.services[name]
        asks = [stage.name for stage in chain.stages if _asks(setting, stage, name)]
        if asks and wanted(service):
            where = f"{service.gpus} more GPUs of 80 GB" if service.served else "an API of others"
            found[name] = (
                f"{setting.served(service)} needs {where}; serve it elsewhere and name it by "
                f"{service.variable} (for {', '.join(asks)})"
            )
            if asks == ["report"]:
                found[name] += _STANDS_IN
    return found


def _asks(setting: Setting, stage: ChainStage, name: str) -> bool:
    """Return whether a stage would ask a service, were it there."""
    service = setting.manifest.services[name]
    if stage.name == "report":
        return name == setting.manifest.judge
    if stage.name.startswith("evaluate_"):
        return service.plays
    return service.in_training and stage.name in ("collect", "pool", "rl")


def required(setting: Setting, chain: Chain) -> list[str]:
    """Return the sentences of those services without which a stage cannot run."""
    return [text for text in unplaced(setting, chain).values() if not text.endswith(_STANDS_IN)]
