"""The keys of a shipped recipe on which a chain depends.

They are read without Hydra: composing a recipe imports the trainer, and a plan is printed at once.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from docagent_rl.base.section import merged
from docagent_rl.checks.recipe_list import ROOT, TrainerKind, recipe_names


@dataclass(frozen=True, slots=True)
class RecipeFacts:
    """A recipe for reinforcement learning."""

    name: str
    system: str
    model: str
    """The model that it trains."""
    tensor_parallel: int
    """GPUs of one inference server."""
    asks_judge: bool
    """True if its judge is a model behind an endpoint."""
    corpus: bool
    """True if its system searches all documents at once, not the one of the question."""
    text_retriever: dict[str, Any] | None
    """The section of its second retriever, if it has one."""
    text_retriever_cpu: dict[str, Any] | None
    """The section that replaces it under the CPU profile."""

    @property
    def sft(self) -> str:
        """The name that its recipe for fine-tuning has, if there is one."""
        return f"sft_{self.name}"


def recipe_facts(name: str) -> RecipeFacts:
    """Read the recipe with this name, which must exist."""
    values = _values(name)
    docagent = values["docagent"]
    rollout = values["actor_rollout_ref"]["rollout"]
    search = (docagent.get("env") or {}).get("search") or {}
    return RecipeFacts(
        name=name,
        system=docagent["system"],
        model=values["actor_rollout_ref"]["model"]["path"],
        tensor_parallel=int(rollout.get("tensor_model_parallel_size", 1)),
        asks_judge=(docagent.get("judge") or {}).get("kind") == "openai",
        corpus=search.get("scope") == "corpus",
        text_retriever=docagent.get("text_retriever"),
        text_retriever_cpu=docagent.get("text_retriever_cpu"),
    )


def sft_model(recipe: str) -> str:
    """Return the model that a recipe for fine-tuning starts from."""
    return _values(recipe)["model"]["path"]


def sft_longest(recipe: str) -> int:
    """Return the number of tokens of the longest row that a recipe for fine-tuning takes."""
    return int(_values(recipe)["data"]["max_length"])


def tuned_recipes() -> list[str]:
    """Return the recipes before which a model can be fine-tuned."""
    sft = recipe_names(kind=TrainerKind.SFT)
    return [name for name in recipe_names() if f"sft_{name}" in sft]


@cache
def _values(name: str) -> dict[str, Any]:
    """Return a recipe's values over those of the shipped files that it builds on."""
    own = yaml.safe_load(_file(name).read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for each in own.pop("defaults", ["_self_"]):
        if each == "_self_":
            values = merged(values, own)
            continue
        below = _name_below(each)
        if _file(below).is_file():  # verl's own files are not here
            values = merged(values, _values(below))
    return values


def _name_below(default: str | dict[str, str]) -> str:
    if isinstance(default, str):
        return default
    ((group, name),) = default.items()
    return f"{group}/{name}"


def _file(name: str) -> Traversable:
    return ROOT.joinpath(*f"{name}.yaml".split("/"))
