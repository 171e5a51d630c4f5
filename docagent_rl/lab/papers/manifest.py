"""Read the manifests of papers, `recipes/papers/<system>.yaml`: data, models, services, numbers."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.checks.recipe_list import ROOT
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.importers.benchmarks import Benchmark

FOLDER = "papers"
SHARED = "shared"
"""The subfolder with files that several manifests use."""
UNKNOWN = "unknown"
"""The value of a field whose true value we do not know."""

Known = Literal["unknown"]


class Weights(Section):
    """Weights that the authors published."""

    hub: str
    revision: str = UNKNOWN
    overrides: tuple[str, ...] = ()
    """Overrides that evaluate these weights, in addition to `docagent.env.variant=released`."""
    printed: float
    """The overall number of the paper's main table."""
    row: str
    """The row of that table."""


class PaperModel(Section):
    """A model that the paper trains; the first of a manifest is the default."""

    recipe: str
    sft: str | None = None
    """The recipe of the supervised stage before it, if there is one."""
    base: str
    """The model that training starts from, by its name on the hub."""
    weights: Weights | None = None


class Download(Section):
    """The download of a benchmark."""

    benchmark: Benchmark
    hub: str | None = None
    """The data set on the hub; `None` if it has to be obtained elsewhere."""
    revision: str = UNKNOWN
    files: tuple[str, ...] = ()
    """Names or patterns of files on the hub; all files if empty."""
    gated: bool = False
    by_hand: str = ""
    """Instructions for what has to be obtained by hand."""
    expects: str = ""
    """A file in the download's folder that exists when the download is complete."""
    unpack: tuple[str, ...] = ()
    """Patterns of the archives in the folder that have to be unpacked."""
    questions: Mapping[str, int | Known]
    """The number of questions in the released files, by split."""
    sha256: Mapping[str, str] | Known = UNKNOWN
    """Checksums of files, by their path."""
    pages: int | Known = UNKNOWN
    """The number of pages of all documents."""
    gib: float | Known = UNKNOWN
    """The size of the files in GiB."""
    license: str = UNKNOWN


class QuestionFile(Section):
    """Questions of a download that are used for training, validation or test."""

    download: str
    use: Literal["train", "val", "test"]
    options: str = ""
    """Options of `docagent-rl data import`."""
    miniature: str | None = None
    """The options at miniature size, if they differ."""
    part: str = ""
    """The part to use (`--part`), if the import creates several."""
    only: Literal["sft", "scratch"] | None = None
    """The value of `--from` that needs it; `None` if all do that train."""
    about: str = ""
    """A note that the stage's title shows."""


class RetrieverIndex(Section):
    """An index of the store."""

    model: str | None = None
    """The model's name in `docagent-rl index models`; `None` for BM25."""
    folder: str = "index"
    """The folder of the index in the workspace."""
    hub: tuple[str, ...] = ()
    """Names on the hub of the models to download."""
    parameters: float = 0
    """The number of parameters of the model."""
    tokens: int = 0
    """The number of tokens that the model reads per page."""
    recipe: str | None = None
    """The one recipe that needs the index, if not all do."""
    bytes: int
    """Bytes of the index per page (docs/retrieval/scale.md)."""


class PaperService(Section):
    """A model behind its own server that plays a role in an environment, or judges answers."""

    model: str
    """The model's name on the hub; `base` for the model that training starts from."""
    port: int
    variable: str
    """The environment variable with the address of a server that replaces the one started here."""
    keys: tuple[str, ...] = ()
    """Configuration keys that receive the address; empty if the recipe reads the variable."""
    plays: bool = False
    """True if the agent's environment needs it, even in evaluations."""
    in_training: bool = True
    """True if the environment asks it during training, False if only the report asks it."""
    options: str = ""
    """Options of `vllm serve`."""
    served: bool = True
    """False for an external API, whose address the variable has to give."""


class Collection(Section):
    """The collection of a teacher's trajectories for the supervised stage."""

    preset: str
    """The value of `docagent-rl collect --preset`."""
    teacher: str
    """The paper's teacher."""
    grounder: str | None = None
    """The paper's model that draws boxes for the teacher, if there is one."""
    questions: int | Known = UNKNOWN
    """The number of the paper's questions for which the teacher makes trajectories."""
    rows: int | Known
    """The number of trajectories on which the paper fine-tunes."""
    max_length: int
    """Maximum number of tokens of a row."""


class Curation(Section):
    """The choice of questions for RL by the fine-tuned model's trajectories."""

    rule: Literal["doc_v_star", "unidoc_rl"]
    """The rule of `docagent-rl data curate`."""
    trajectories: int
    """The number of trajectories of each question."""
    options: str = ""
    """Options of `docagent-rl data curate`."""
    miniature: str = ""
    """The options at miniature size."""
    only: Literal["sft", "scratch"] | None = None
    """The value of `--from` that needs it; `None` if both do."""


class Reinforcement(Section):
    """The stage of RL."""

    questions: int | Known
    """The number of the paper's questions."""
    overrides: tuple[str, ...] = ()
    """Overrides of the recipe."""


class PaperEvaluation(Section):
    """A run over all test questions."""

    name: str
    overrides: tuple[str, ...] = ()
    about: str
    """The paper's numbers that it reproduces."""
    agent: Agent = Agent.SYSTEM
    """The agent; a baseline is played by a model that is not trained here."""
    model: str | None = None
    """The baseline's model, by its name on the hub; `None` for the one that training starts from.
    """
    recipe: str | None = None
    """The one recipe that it belongs to, if it is not one of all."""
    contexts: int = Field(1, ge=1)
    """Most contexts of a trajectory; agents that do not share one have several."""


class PaperComparison(Section):
    """Numbers of the paper, and whether those of a run can be compared with them."""

    what: str
    """The paper's numbers."""
    comparable: bool
    why: str
    """The reason why they can or cannot be compared."""


class PaperManifest(Section):
    """Everything that the reproduction of a paper needs."""

    system: str
    title: str
    arxiv: str
    claims: str
    """The paper's claims, with the numbers of its tables."""
    code: str
    """The code, weights and data that the authors released."""
    hardware: str
    """The hardware of the paper."""
    card: str = "a100-80"
    """The paper's GPU, as `recipes budget --gpu-memory` names it."""
    models: tuple[PaperModel, ...]
    downloads: Mapping[str, Download]
    """The downloads that `questions` name, by name, from `shared/downloads.yaml`."""
    pages: int | Known = UNKNOWN
    """The number of pages of the paper's corpus."""
    questions: Mapping[str, QuestionFile]
    indexes: tuple[RetrieverIndex, ...]
    hubs: tuple[str, ...] = ()
    """Further models to download from the hub, such as an embedder."""
    services: Mapping[str, PaperService] = {}
    judge: str | None = None
    """The service that judges the report."""
    collection: Collection | None = None
    curation: Curation | None = None
    rl: Reinforcement
    evaluations: tuple[PaperEvaluation, ...]
    comparisons: tuple[PaperComparison, ...]
    unknown: tuple[str, ...]
    """Facts that neither the paper nor the release tells."""
    literal: str
    """The keys that `--literal` sets and their consequences, or the reason why it sets none."""

    def model(self, recipe: str | None) -> PaperModel:
        """Return the model of a recipe, by default the first model.

        Raises:
            UserError: the paper has no such recipe.
        """
        if recipe is None:
            return self.models[0]
        for each in self.models:
            if each.recipe == recipe:
                return each
        known = ", ".join(each.recipe for each in self.models)
        raise UserError(f"{self.title} has no recipe {recipe!r}; it has {known}")


def paper_systems() -> list[str]:
    """List the systems that have a manifest, sorted."""
    names = (path.name for path in (ROOT / FOLDER).iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def read_paper(system: str) -> PaperManifest:
    """Read the manifest of a system.

    Raises:
        UserError: the system has no manifest, or a field of it is wrong.
    """
    if system not in paper_systems():
        raise UserError(f"no paper for {system!r}; choose from {', '.join(paper_systems())}")
    return parse_paper(_read(f"{system}.yaml"), f"{FOLDER}/{system}.yaml")


def parse_paper(values: Mapping[str, Any], where: str) -> PaperManifest:
    """Check a manifest's fields, and add the downloads that it names.

    Errors begin with `where`, the manifest's file.
    """
    known = _read(f"{SHARED}/downloads.yaml")
    questions = values.get("questions") or {}
    names = [each.get("download") for each in questions.values() if isinstance(each, Mapping)]
    if missing := sorted({str(name) for name in names} - known.keys()):
        raise UserError(
            f"{where}: questions: {SHARED}/downloads.yaml has no download {', '.join(missing)}"
        )
    downloads = {name: known[name] for name in dict.fromkeys(names)}
    return validated(PaperManifest, {**values, "downloads": downloads}, where)


@cache
def _read(name: str) -> dict[str, Any]:
    return read_yaml(Path(str(ROOT / FOLDER / name)), "system: vrag_rl")
