"""Manifests of papers, `recipes/papers/<system>.yaml`: data, models, services, numbers."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, read_yaml, validated
from docagent_rl.checks.recipe_list import ROOT
from docagent_rl.lab.importers.benchmarks import Benchmark

FOLDER = "papers"
SHARED = "shared"
"""Subfolder of the manifests for what several of them use."""
UNKNOWN = "unknown"
"""The value of a field whose true value is not known here."""

Known = Literal["unknown"]


class Weights(Section):
    """Weights that the authors published."""

    hub: str
    revision: str = UNKNOWN
    overrides: tuple[str, ...] = ()
    """Overrides of the release, in addition to `docagent.env.variant=released`."""
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
    """A benchmark as it is downloaded."""

    benchmark: Benchmark
    hub: str | None = None
    """Data set on the hub; `None` if it has to be obtained elsewhere."""
    revision: str = UNKNOWN
    files: tuple[str, ...] = ()
    """Names or patterns of files on the hub; all files if empty."""
    gated: bool = False
    by_hand: str = ""
    """Instructions for what has to be obtained by hand."""
    expects: str = ""
    """A file in the download's folder that exists when the download is complete."""
    unpack: tuple[str, ...] = ()
    """Archives below the folder, by pattern."""
    questions: Mapping[str, int | Known]
    """Rows of the released files, by split."""
    sha256: Mapping[str, str] | Known = UNKNOWN
    """Checksums of files, by their path."""
    pages: int | Known = UNKNOWN
    gib: float | Known = UNKNOWN
    license: str = UNKNOWN


class QuestionFile(Section):
    """Questions of a download that a stage uses."""

    download: str
    use: Literal["train", "val", "test"]
    options: str = ""
    """Options of `docagent-rl data import`."""
    miniature: str | None = None
    """The options at miniature size, if they differ."""
    part: str = ""
    """The part to use (`--part`), if the import creates several."""
    only: Literal["sft", "scratch"] | None = None
    """The beginning that needs it; `None` if all that train do."""
    about: str = ""


class RetrieverIndex(Section):
    """An index of the store."""

    model: str | None = None
    """A name of `docagent-rl index models`; `None` for BM25."""
    folder: str = "index"
    hub: tuple[str, ...] = ()
    parameters: float = 0
    """Parameters of its model."""
    tokens: int = 0
    """Tokens that the model reads per page."""
    recipe: str | None = None
    """The one recipe that needs it, if not all do."""
    bytes: int
    """Bytes of the index per page (docs/retrieval/scale.md)."""


class PaperService(Section):
    """A model behind its own server that plays a role in an environment, or judges answers."""

    model: str
    """Name on the hub; `base` for the model that training starts from."""
    gpus: int = 1
    """GPUs of 80 GB."""
    port: int
    variable: str
    """Environment variable with the address of a server that replaces the one started here."""
    keys: tuple[str, ...] = ()
    """Configuration keys that receive the address; empty if the recipe reads the variable."""
    plays: bool = False
    """True if agents cannot play without it, even in evaluations."""
    in_training: bool = True
    """The environment of training asks it; False: the report alone does."""
    options: str = ""
    """Options of `vllm serve`."""
    served: bool = True
    """False: an API of others, which the variable has to name."""


class Collection(Section):
    """Trajectories of a teacher, for the supervised stage."""

    preset: str
    teacher: str
    """The paper's."""
    grounder: str | None = None
    questions: int | Known = UNKNOWN
    """Questions that the teacher plays, of the paper."""
    rows: int | Known
    """Trajectories that the paper fine-tunes on."""
    max_length: int


class Curation(Section):
    """The choice of questions for RL by trajectories of the fine-tuned model."""

    rule: Literal["doc_v_star", "unidoc_rl"]
    trajectories: int
    options: str = ""
    miniature: str = ""
    only: Literal["sft", "scratch"] | None = None


class Reinforcement(Section):
    """The stage of RL."""

    questions: int | Known
    """Questions of the paper's set."""
    overrides: tuple[str, ...] = ()


class PaperEvaluation(Section):
    """A run over all test questions."""

    name: str
    overrides: tuple[str, ...] = ()
    about: str


class PaperComparison(Section):
    """Numbers of the paper, and whether a run's can stand beside them."""

    what: str
    comparable: bool
    why: str


class PaperManifest(Section):
    """All of a paper."""

    system: str
    title: str
    arxiv: str
    claims: str
    """What the paper says it reaches, with the numbers of its tables."""
    code: str
    hardware: str
    card: str = "a100-80"
    """The card of the paper, of `recipes budget --gpu-memory`."""
    models: tuple[PaperModel, ...]
    downloads: Mapping[str, Download]
    """By name, of `shared/downloads.yaml`; those that `questions` name."""
    pages: int | Known = UNKNOWN
    """Pages of the paper's corpus."""
    questions: Mapping[str, QuestionFile]
    indexes: tuple[RetrieverIndex, ...]
    hubs: tuple[str, ...] = ()
    """Further models of the hub, such as an embedder."""
    services: Mapping[str, PaperService] = {}
    judge: str | None = None
    """The service that judges the report."""
    collection: Collection | None = None
    curation: Curation | None = None
    rl: Reinforcement
    evaluations: tuple[PaperEvaluation, ...]
    comparisons: tuple[PaperComparison, ...]
    unknown: tuple[str, ...]
    literal: str
    """What `--literal` costs, or why there is nothing to set."""

    def model(self, recipe: str | None) -> PaperModel:
        """Return the model of a recipe, by default the first.

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
        UserError: there is none, or a field of it is wrong.
    """
    if system not in paper_systems():
        raise UserError(f"no paper of {system!r} is here; known are {', '.join(paper_systems())}")
    return parse_paper(_read(f"{system}.yaml"), f"{FOLDER}/{system}.yaml")


def parse_paper(values: Mapping[str, Any], where: str) -> PaperManifest:
    """Check a manifest's fields, and add the downloads that it names; errors name `where` it is
    from.
    """
    known = _read(f"{SHARED}/downloads.yaml")
    questions = values.get("questions") or {}
    names = [each.get("download") for each in questions.values() if isinstance(each, Mapping)]
    if missing := sorted({str(name) for name in names} - known.keys()):
        raise UserError(f"{where}: questions: there is no download {', '.join(missing)}")
    downloads = {name: known[name] for name in dict.fromkeys(names)}
    return validated(PaperManifest, {**values, "downloads": downloads}, where)


@cache
def _read(name: str) -> dict[str, Any]:
    return read_yaml(Path(str(ROOT / FOLDER / name)), "system: vrag_rl")
