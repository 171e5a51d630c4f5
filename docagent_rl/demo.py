"""A workspace to try everything on: synthetic reports, real PDFs if there are any, and tiny models."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.data.outline_questions import outline_records
from docagent_rl.data.parquet import write_parquet
from docagent_rl.data.record import Record, Split, read_jsonl
from docagent_rl.data.synth import SynthSettings, synthesize
from docagent_rl.data.synth.settings import QuestionKind
from docagent_rl.documents import DocumentStore, ingest
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.systems import get_system

if TYPE_CHECKING:
    from docagent_rl.testing.scripts import Player

DEFAULT_SYSTEM = "vrag_rl"
"""Whose model is made when nobody says otherwise."""

ASKED = frozenset({QuestionKind.TEXT_FACT, QuestionKind.PAGE_INDEX})
"""Kinds of synthetic questions to train on: a sentence of one page answers them. A tiny model reads neither
tables nor charts, and the sessions of a question that is never answered are all paid alike."""

OUTLINE_QUESTIONS = 24
"""Questions drawn from the bookmarks of each real PDF."""

OUTLINE_BUDGET = 40
"""Pages of a synthetic report times the questions drawn from its bookmarks: short ones are asked more, since
chance finds a page of theirs."""


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the parts of a workspace are; the recipes' defaults name the same places."""

    workspace: Path

    @property
    def pdfs(self) -> Path:
        """PDFs of the user's own: whatever lies here is ingested too."""
        return self.workspace / "pdfs"

    @property
    def synthetic(self) -> Path:
        """Synthetic reports and their questions."""
        return self.workspace / "synthetic"

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"

    @property
    def index(self) -> Path:
        """The BM25 index."""
        return self.workspace / "index"

    def model(self, system: str) -> Path:
        """The tiny model that was warmed up on a system."""
        return self.workspace / "models" / f"tiny_{system}"

    def data(self, split: Split) -> Path:
        """A parquet file of verl's shape."""
        return self.workspace / "data" / f"{split.value}.parquet"

    def missing(self, system: str) -> list[Path]:
        """What a run of a system needs and is not there."""
        needed = [self.store, self.index, self.model(system) / "config.json"]
        needed += [self.data(split) for split in (Split.TRAIN, Split.VAL)]
        return [path for path in needed if not path.exists()]


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What is in the workspace now."""

    paths: DemoPaths
    documents: int
    pages: int
    questions: dict[str, int]

    def describe(self) -> str:
        """One line for people."""
        counts = ", ".join(f"{number} {split}" for split, number in self.questions.items())
        return f"{self.paths.workspace}: {self.documents} documents, {self.pages} pages; questions: {counts}"


def prepare_demo(
    workspace: Path,
    *,
    pdfs: Path | None = None,
    seed: int = 0,
    progress: bool = False,
    system: str = DEFAULT_SYSTEM,
    env: Mapping[str, Any] | None = None,
    warm_up: Mapping[str, Any] | None = None,
    synthetic: SynthSettings | None = None,
) -> DemoReport:
    """Fill a workspace; what exists already is not made again.

    Questions come from the synthetic reports (answers, pages and boxes known by construction) and from the
    bookmarks of these and of real PDFs ("on which page does the section ... begin?"). The tiny model learns
    from scripted episodes in the system's environment over these documents. A system without a scripted
    policy, such as one of your own, gets a model that was warmed up on `DEFAULT_SYSTEM`.

    Args:
        workspace: the folder.
        pdfs: a folder of PDFs to ingest as well; `<workspace>/pdfs` by default, if it exists.
        seed: seed of documents, questions and the model.
        progress: show progress bars.
        system: the system that the model is for; only its model is made.
        env: configuration of the system's environment; `testing.scripts.sizes.SMALL` by default.
        warm_up: settings of `WarmUp` to change.
        synthetic: which reports to make; by default those of `SynthSettings` with `seed`.

    Raises:
        UserError: a PDF cannot be read, `pdfs` does not exist, or `env` is no configuration of the system.
    """
    paths = DemoPaths(workspace)
    real = pdfs or paths.pdfs
    if pdfs is not None and not pdfs.is_dir():
        raise UserError(f"{pdfs}: no such folder of PDFs")
    synthesize(paths.synthetic, synthetic or SynthSettings(seed=seed), progress=progress)
    _ingest(paths.synthetic / "pdfs", paths.store, progress=progress)
    real_ids: set[str] = set()
    if real.is_dir() and any(real.glob("**/*.pdf")):
        real_ids = _ingest(real, paths.store, progress=progress)
    store = DocumentStore(paths.store)
    _build_index(store, paths.index, progress=progress)
    questions = _questions(paths, store, sorted(real_ids), seed)
    for split, records in questions.items():
        write_parquet(records, paths.data(split))
    players = _players(paths, store, questions[Split.TRAIN], system, env)
    _build_model(paths.model(system), players, seed, warm_up or {}, progress=progress)
    return DemoReport(
        paths,
        documents=len(store.doc_ids()),
        pages=sum(1 for _ in store.pages()),
        questions={split.value: len(records) for split, records in questions.items()},
    )


def _ingest(folder: Path, store: Path, *, progress: bool) -> set[str]:
    """Ingest a folder; its documents.

    Raises:
        UserError: a PDF cannot be read.
    """
    report = ingest(folder, store, progress=progress)
    if report.failed:
        raise UserError("; ".join(f"{f.name}: {f.reason}" for f in report.failed))
    return {*report.ingested, *report.skipped}


def _build_index(store: DocumentStore, path: Path, *, progress: bool) -> None:
    if path.exists():
        try:
            BM25Retriever.load(path).check(store)
        except UserError:
            pass  # stale: the store has changed since
        else:
            return
    BM25Retriever.build(store, progress=progress).save(path)


def _questions(
    paths: DemoPaths, store: DocumentStore, real_ids: Sequence[str], seed: int
) -> dict[Split, list[Record]]:
    """Records by split; all have gold pages, which retrieval rewards need."""
    records = _synthetic_questions(paths, store, seed)
    for doc_id in real_ids:
        drawn = outline_records(store.document(doc_id), limit=OUTLINE_QUESTIONS, seed=seed, split=Split.TRAIN)
        held_out = len(drawn) // 4
        records += drawn[held_out:]
        records += [_as_validation(record) for record in drawn[:held_out]]
    splits: dict[Split, list[Record]] = {}
    for split in (Split.TRAIN, Split.VAL):
        chosen = [record for record in records if record.split is split]
        random.Random(f"demo/{seed}/{split.value}").shuffle(chosen)
        splits[split] = chosen
    return splits


def _synthetic_questions(paths: DemoPaths, store: DocumentStore, seed: int) -> list[Record]:
    made = [record for record in read_jsonl(paths.synthetic / "records.jsonl") if record.gold_pages]
    records = [r for r in made if r.split is not Split.TRAIN or r.extra["kind"] in ASKED]
    for doc_id in sorted({record.doc_id for record in made if record.split is Split.TRAIN}):
        document = store.document(doc_id)
        # 00000-hareden-annual-report-2022
        name = " ".join(doc_id.split("-")[1:])
        limit = OUTLINE_BUDGET // document.num_pages
        records += outline_records(document, limit=limit, seed=seed, split=Split.TRAIN, name=name)
    return records


def _as_validation(record: Record) -> Record:
    return Record.from_dict({**record.to_dict(), "split": Split.VAL.value})


def _players(
    paths: DemoPaths,
    store: DocumentStore,
    records: Sequence[Record],
    name: str,
    env: Mapping[str, Any] | None,
) -> list[Player]:
    """Where the scripted policy plays, and the policy; several where one model should know several."""
    from docagent_rl.testing.scripts import SCRIPTS, Player, Stage
    from docagent_rl.testing.scripts.sizes import SMALL

    if name not in SCRIPTS:
        name, env = DEFAULT_SYSTEM, None
    system = get_system(name)
    config = system.parse_config(SMALL[name] if env is None else env)
    services = EnvServices(store, RetrieverService(BM25Retriever.load(paths.index)), RuleJudge())
    configs = SCRIPTS[name].configs(config)
    return [Player(Stage(system, each, services, records), SCRIPTS[name](each)) for each in configs]


def _build_model(
    path: Path, players: Sequence[Player], seed: int, changes: Mapping[str, Any], *, progress: bool
) -> None:
    """A tiny model that has learnt the form of a turn: random weights would only emit noise."""
    from docagent_rl.testing.scripts import scripted_conversations
    from docagent_rl.testing.tiny_qwen2_5_vl import build_tiny_qwen2_5_vl
    from docagent_rl.testing.warm_up import WarmUp

    transcripts = partial(scripted_conversations, players)
    settings = WarmUp(transcripts, **{"seed": seed, **players[0].script.warm_up, **changes})
    build_tiny_qwen2_5_vl(path, seed=seed, warm_up=settings, show_progress=progress)
