"""A user's choices for a reproduction, and the parts of commands that follow from them."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from docagent_rl.checks.recipe_list import ABLATIONS, ablation_names
from docagent_rl.lab.papers.machine import Machine, restricted, wanted
from docagent_rl.lab.papers.manifest import (
    PaperEvaluation,
    PaperManifest,
    PaperModel,
    PaperService,
    RetrieverIndex,
)
from docagent_rl.lab.papers.placing import Placement, place
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

    @cached_property
    def placement(self) -> Placement:
        """The GPUs of the policy and of the services that it needs at the same time."""
        if self.miniature or self.machine.gpus == 0:
            known = {} if self.miniature else self.manifest.services
            return Placement((0,), elsewhere=tuple(name for name in known if wanted(known[name])))
        return place(self.model.recipe, self.machine, self.manifest.services, trains=self.trains)

    def served(self, service: PaperService) -> str:
        """Return the name of a service's model."""
        return self.model.base if service.model == "base" else service.model

    @property
    def indexes(self) -> list[RetrieverIndex]:
        """The indexes that the recipe needs."""
        found = self.manifest.indexes
        return [each for each in found if each.recipe in (None, self.model.recipe)]

    @property
    def evaluations(self) -> list[PaperEvaluation]:
        """The evaluations of the recipe; at miniature size only the first."""
        found = self.manifest.evaluations
        own = [each for each in found if each.recipe in (None, self.model.recipe)]
        return own[:1] if self.miniature else own

    def baseline_model(self, evaluation: PaperEvaluation) -> str:
        """Return the name on the hub of the model that plays a baseline."""
        return evaluation.model or self.model.base

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
        """Return the trainer's environment variables, with its GPUs and that of the retriever."""
        if self.miniature:
            return self.environment
        own = self.placement.trainer + self.placement.retriever
        return {**self.environment, **restricted(own, self.machine.gpus)}


def address(service: PaperService) -> str:
    """Return the address of a service as a bash expression: its variable, or this machine."""
    return f"${{{service.variable}:-http://127.0.0.1:{service.port}/v1}}"
