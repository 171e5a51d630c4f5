"""A user's choices for a reproduction, and the parts of commands that follow from them."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docagent_rl.checks.recipe_list import ABLATIONS, ablation_names
from docagent_rl.lab.papers.machine import Machine, Placement, share_gpus, wanted
from docagent_rl.lab.papers.manifest import (
    PaperManifest,
    PaperModel,
    PaperService,
    RetrieverIndex,
)
from docagent_rl.lab.stages.workspace import InWorkspace

LITERAL = "literal"
"""The name of the ablation that sets what the paper prints and the recipe departs from."""


class Beginning(StrEnum):
    """The value of `--from`: the model with which a reproduction begins."""

    WEIGHTS = "weights"
    """Evaluate the authors' weights."""
    SFT = "sft"
    """Start from a fine-tuned model of the user: curation, RL, evaluations."""
    SCRATCH = "scratch"
    """Start from the base model: a teacher's trajectories and the supervised stage come first."""


@dataclass(frozen=True)
class Setting(InWorkspace):
    """A user's choices for the reproduction of one model of a paper."""

    manifest: PaperManifest
    model: PaperModel
    beginning: Beginning
    machine: Machine
    miniature: bool = False
    literal: bool = False
    prompts: Path | None = None
    teacher_url: str = "http://127.0.0.1:8003/v1"
    teacher: str | None = None

    @property
    def tuned(self) -> bool:
        """True if a supervised stage comes before RL."""
        return self.model.sft is not None

    @property
    def trains(self) -> bool:
        """True if the policy is trained."""
        return self.beginning is not Beginning.WEIGHTS

    @property
    def placement(self) -> Placement:
        """The GPUs of the policy and of the services that it needs at the same time.

        If nothing is trained, the judge can use all GPUs, since it runs after the evaluation.
        """
        known = {} if self.miniature else self.manifest.services
        if self.trains:
            return share_gpus(self.machine, known)
        found = share_gpus(self.machine, {name: each for name, each in known.items() if each.plays})
        services = dict(found.services)
        elsewhere = list(found.elsewhere)
        for name, each in known.items():
            if each.plays or not wanted(each):
                continue
            if each.served and each.gpus <= self.machine.gpus:
                services[name] = tuple(range(each.gpus))
            else:
                elsewhere.append(name)
        return Placement(found.trainer, services, found.retriever, tuple(elsewhere))

    def served(self, service: PaperService) -> str:
        """Return the name of a service's model."""
        return self.model.base if service.model == "base" else service.model

    @property
    def indexes(self) -> list[RetrieverIndex]:
        """The indexes that the recipe needs."""
        found = self.manifest.indexes
        return [each for each in found if each.recipe in (None, self.model.recipe)]

    @property
    def overrides(self) -> list[str]:
        """The overrides of every command that makes trajectories."""
        found = ["+profile=cpu"] if self.miniature else []
        if self.prompts is not None:
            found.append(f"docagent.prompt={shlex.quote(str(self.prompts))}")
        return found

    def asking(self) -> list[str]:
        """Return overrides with the addresses of services that the recipe has no variable for."""
        if self.miniature:
            return []
        return [
            f'{key}="{address(service)}"'
            for service in self.manifest.services.values()
            for key in service.keys
        ]

    def literally(self) -> list[str]:
        """Return the overrides that set what the paper prints and the recipe departs from."""
        return [f"+{ABLATIONS}={self.manifest.system}/{LITERAL}"] if self.literal else []

    @property
    def has_literal(self) -> bool:
        """True if the recipe has an ablation `LITERAL`."""
        return f"{self.manifest.system}/{LITERAL}" in ablation_names(self.model.recipe)

    def trainer_environment(self) -> dict[str, str]:
        """Variables of the trainer: its GPUs, and that of the retriever."""
        if self.miniature:
            return self.environment
        return {**self.environment, **self.placement.devices(self.machine.gpus)}


def address(service: PaperService) -> str:
    """Return the address of a service as a bash expression: its variable, or this machine."""
    return f"${{{service.variable}:-http://127.0.0.1:{service.port}/v1}}"
