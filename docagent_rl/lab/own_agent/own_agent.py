"""An agent of one's own: its folder, its choices, and the parts of commands that follow."""

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from docagent_rl.lab.own_agent.project import Project
from docagent_rl.lab.own_agent.recipe import RecipeFacts, recipe_facts
from docagent_rl.lab.own_agent.retriever import NeededIndex, needed_indexes, retriever_section
from docagent_rl.lab.papers.machine import restricted, trainer_size
from docagent_rl.lab.stages.stage import Estimate
from docagent_rl.lab.stages.training import RETRIEVER_ON_GPU, engine_overrides, node_overrides
from docagent_rl.lab.stages.workspace import InWorkspace
from docagent_rl.lab.tiny.workspace import DemoPaths

_LORA = "+lora="


@dataclass(frozen=True)
class OwnAgent(InWorkspace):
    """An agent that is trained in its folder, which is its workspace."""

    project: Project
    all_gpus: int
    """GPUs of the machine."""

    @cached_property
    def recipe(self) -> RecipeFacts:
        """The recipe that trains it."""
        return recipe_facts(self.project.recipe)

    @property
    def tiny(self) -> bool:
        """True if a tiny model is trained without a GPU."""
        return self.project.profile == "cpu"

    @property
    def documents(self) -> Path:
        """The folder of documents."""
        return self.own_file(self.project.documents)

    @property
    def questions(self) -> Path:
        """The file of questions."""
        return self.own_file(self.project.questions)

    @property
    def run(self) -> Path:
        """The folder of the run of RL."""
        return self.place("runs", self.recipe.name)

    def own_file(self, name: str) -> Path:
        """Return the path of a file of the user, which is relative to the agent's folder."""
        return Path(self.workspace, name).resolve()

    @property
    def gpus(self) -> int:
        """The number of GPUs of the trainer; 0 if a tiny model is trained."""
        return 0 if self.tiny else trainer_size(self._used_gpus)

    @property
    def _used_gpus(self) -> int:
        return self.project.gpus or self.all_gpus

    @property
    def _retriever_has_gpu(self) -> bool:
        """True if a GPU is left for the retriever, the one after the trainer's."""
        return self.gpus < self._used_gpus

    @property
    def has_gpu(self) -> bool:
        """True if something may compute on a GPU."""
        return not self.tiny and bool(self.all_gpus or self.project.gpus)

    @property
    def indexes(self) -> list[NeededIndex]:
        """The indexes that searches read, each once."""
        text = self.recipe.text_retriever_cpu if self.tiny else self.recipe.text_retriever
        sections = [retriever_section(self.project.retriever), text or {}]
        found = [each for one in sections for each in needed_indexes(one, self.workspace)]
        return list(dict.fromkeys(found))

    @property
    def base_model(self) -> str:
        """The model that training starts from."""
        if self.project.model is not None:
            folder = self.own_file(self.project.model)
            return str(folder) if folder.is_dir() else self.project.model
        if self.tiny:
            return str(DemoPaths(self.workspace).model(self.recipe.system))
        return self.recipe.model

    def playing(self) -> list[str]:
        """Return the first overrides of every command in which the system plays."""
        # an adapter's settings come before the profile, which makes everything smaller
        words = [shlex.quote(each) for each in self.project.overrides if each.startswith(_LORA)]
        if self.tiny:
            words.append("+profile=cpu")
        return [*words, f"+retriever={self.project.retriever}", *self._judging()]

    def chosen(self) -> list[str]:
        """Return the user's overrides, which come last so that they win."""
        return [shlex.quote(each) for each in self.project.overrides if not each.startswith(_LORA)]

    def _judging(self) -> list[str]:
        judge = self.project.judge
        if judge is None:
            # the profile sets it by itself
            return ["docagent.judge.kind=rule"] if self.recipe.asks_judge and not self.tiny else []
        values = {"kind": "openai", "base_url": judge.base_url, "model": judge.model}
        if judge.api_key_env is not None:
            values["api_key_env"] = judge.api_key_env
        return [shlex.quote(f"docagent.judge.{key}={value}") for key, value in values.items()]

    def on_node(self) -> list[str]:
        """Return the overrides by which the trainer takes its GPUs."""
        if self.tiny:
            return []
        words = node_overrides(self.gpus, self.recipe.tensor_parallel)
        if self._retriever_has_gpu and self._retriever_wants_gpu:
            words.append(RETRIEVER_ON_GPU)
        return words

    def in_process(self) -> list[str]:
        """Return the overrides of a model that plays in the command's process with a retriever."""
        if self.tiny:
            return []
        words = engine_overrides(self.gpus, self.recipe.tensor_parallel)
        if self.has_gpu and self._retriever_wants_gpu:
            words.append("docagent.retriever.encoder.device=cuda")
        return words

    @property
    def _retriever_wants_gpu(self) -> bool:
        """True if the retriever has a large model: small ones have a backend of their own."""
        section = retriever_section(self.project.retriever)
        return section.get("model") is not None and "backend" not in section

    def trainer_environment(self) -> dict[str, str]:
        """Return the variables of commands that compute on GPUs."""
        if self.tiny:
            return self.environment
        all_gpus = max(self.all_gpus, self.project.gpus or 0)
        own = tuple(range(self.gpus + self._retriever_has_gpu))
        return {**self.environment, **restricted(own, all_gpus)}

    def computing(self) -> Estimate:
        """Return the cost of a stage that computes on GPUs, which nobody has estimated."""
        return Estimate() if self.tiny else Estimate(None, None)
