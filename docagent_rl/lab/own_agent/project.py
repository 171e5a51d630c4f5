"""The configuration of an agent of one's own: `agent.yaml` in the agent's folder."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.checks.recipe_list import TrainerKind, require_recipes
from docagent_rl.lab.collect.rules import AgentKind
from docagent_rl.lab.own_agent.recipe import tuned_recipes
from docagent_rl.lab.own_agent.retriever import retriever_names

FILE = "agent.yaml"


class OwnJudge(Section):
    """A model that decides whether an answer is right."""

    base_url: str
    """The address of an OpenAI-compatible API."""
    model: str
    api_key_env: str | None = None
    """The environment variable with the key."""


class OwnTeacher(Section):
    """An agent whose trajectories a model is fine-tuned on before RL."""

    player: AgentKind = AgentKind.ENDPOINT
    base_url: str | None = None
    """The address of an OpenAI-compatible API."""
    model: str | None = None
    api_key_env: str | None = None
    filters: str = "collect.yaml"
    """The file that says which trajectories are kept, or the name of a preset."""
    overrides: tuple[str, ...] = ()
    """Overrides of the recipe for fine-tuning."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        named = (self.base_url, self.model)
        if self.player is AgentKind.ENDPOINT and None in named:
            raise ValueError("player endpoint needs base_url and model")
        if self.player is not AgentKind.ENDPOINT and any(named):
            raise ValueError(f"player {self.player.value} has no base_url and no model")
        return self


class OwnEvaluation(Section):
    """The evaluation of the trained agent."""

    questions: str | None = None
    """A file of questions that are never trained on; `None`: those that are set aside for
    validation.
    """


class Project(Section):
    """All choices for an agent of one's own; paths are relative to the folder of the file."""

    documents: str
    """The folder of PDFs and page images."""
    recipe: str
    profile: Literal["cpu"] | None
    """`cpu` trains a tiny model without a GPU; `None` trains the recipe's model on GPUs."""
    gpus: int | None = Field(None, ge=1)
    """GPUs to use; `None`: all of this machine."""
    model: str | None = None
    """Weights to begin with: a folder or a name on the hub; `None`: the recipe's."""
    retriever: str = "bm25"
    questions: str = "questions.jsonl"
    """The file of questions; placeholders are written to it if it does not exist."""
    validation: float = Field(0.1, gt=0, lt=1)
    """The share of questions that are set aside for validation."""
    judge: OwnJudge | None = None
    """The model that judges answers; `None`: the embedded rule."""
    teacher: OwnTeacher | None = None
    """The teacher whose trajectories a model is fine-tuned on before RL; `None`: no fine-tuning."""
    steps: int | None = Field(None, ge=1)
    """Steps of RL; `None`: as many as the recipe has epochs for."""
    evaluation: OwnEvaluation = OwnEvaluation()
    overrides: tuple[str, ...] = ()
    """Overrides of the recipe, in Hydra's syntax."""


_SECTIONS: Mapping[str, type[BaseModel]] = {
    "": Project,
    "judge": OwnJudge,
    "teacher": OwnTeacher,
    "evaluation": OwnEvaluation,
}
"""The kinds of sections by their key."""


def read_project(folder: Path) -> Project:
    """Read and check the configuration of the agent in a folder.

    Raises:
        UserError: there is none, a key is unknown or has a wrong value, or it names a folder, a
            file, a recipe or a retriever that does not exist.
    """
    file = folder / FILE
    if not file.is_file():
        raise UserError(
            f"{folder} has no {FILE}: `docagent-rl init {folder} --documents PDFS` makes a folder "
            "with one"
        )
    values = read_yaml(file, "documents: ../pdfs")
    _check_keys(values, str(file))
    project = validated(Project, values, str(file))
    _check_paths(project, folder, str(file))
    check_recipe_choice(project.recipe, f"{file}: recipe: ")
    _check_retriever(project.retriever, str(file))
    if project.teacher is not None and project.recipe not in tuned_recipes():
        raise UserError(
            f"{file}: teacher: there is no recipe that fine-tunes a model for {project.recipe}: "
            f"set teacher: null, or choose one of {', '.join(tuned_recipes())}"
        )
    return project


def check_recipe_choice(recipe: str, where: str) -> None:
    """Check that a shipped recipe for reinforcement learning has this name.

    Raises:
        UserError: none has; the message begins with `where` and suggests the most similar name.
    """
    try:
        # files of one's own are run by themselves: a chain reads what shipped recipes build on
        require_recipes([recipe.removesuffix(".yaml")], kind=TrainerKind.RL)
    except UserError as error:
        raise UserError(f"{where}{error}") from error


def _check_keys(values: Mapping[str, Any], where: str) -> None:
    for name, kind in _SECTIONS.items():
        section = values if name == "" else values.get(name)
        if not isinstance(section, Mapping):
            continue
        for key in section:
            if key not in kind.model_fields:
                place = f"{name}: " if name else ""
                near = _nearest(str(key), kind.model_fields)
                raise UserError(f"{where}: {place}there is no key {key!r}{near}")


def _check_retriever(name: str, where: str) -> None:
    known = retriever_names()
    if name not in known:
        raise UserError(
            f"{where}: retriever: no index can be built for {name!r}{_nearest(name, known)}"
        )


def _check_paths(project: Project, folder: Path, where: str) -> None:
    documents = folder / project.documents
    check_documents(documents, folder, f"{where}: documents: ")
    named = {"evaluation.questions": project.evaluation.questions}
    if project.teacher is not None and project.teacher.filters.endswith((".yaml", ".yml")):
        named["teacher.filters"] = project.teacher.filters
    for key, name in named.items():
        if name is not None and not (folder / name).is_file():
            raise UserError(f"{where}: {key}: there is no file {folder / name}")


def check_documents(documents: Path, folder: Path, where: str) -> None:
    """Check the folder of documents of the agent in `folder`.

    Raises:
        UserError: it does not exist, or contains the agent's folder; the message begins with
            `where`.
    """
    if not documents.is_dir():
        raise UserError(f"{where}there is no folder {documents}: name the one with your PDFs")
    if folder.resolve().is_relative_to(documents.resolve()):
        raise UserError(
            f"{where}{documents} contains the agent's folder {folder}, whose files would be read "
            "as documents: move one of them"
        )


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}? Known" if near else "known"
    return f": {hint} are {', '.join(names)}"
