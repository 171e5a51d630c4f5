"""Commands that write files, with small inputs."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import remove
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.samples.questions import read_questions
from tests.documents.conftest import write_pdf

_SYNTHETIC = SynthSettings(documents=2, seed=5, difficulties=(DocumentDifficulty.EASY,))
_LOW = RenderSettings(dpi=20)
_TRAJECTORIES = """
from pathlib import Path
from docagent_rl.cli import reported
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.samples.questions import read_questions
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories

with reported():
    records = read_questions(Path("questions.jsonl"))[:3]
    for step in (1, 2):
        trajectories = [
            new_trajectory(record, number, "alden") for record in records for number in (0, 1)
        ]
        write_trajectories(Path("run"), step, trajectories)
        write_metrics(Path("run"), step, {"turns": 2.0})
"""
IMPORTS = (
    "docagent_rl.cli",
    "docagent_rl.lab.synth.layout",
    "docagent_rl.lab.synth.questions",
    "docagent_rl.documents.workers",
    "docagent_rl.training.trainer.archive",
    "tests.faults.file_events",
)
"""The modules that the commands import, except those that read their environment when loaded."""


@dataclass(frozen=True)
class Job:
    """A command in a folder.

    Args:
        argv: what `python` gets.
        prepare: makes the inputs in the folder.
        halfway: patterns of files that a killed command may leave halfway: its own notes of what is
            done.
    """

    name: str
    argv: tuple[str, ...]
    prepare: Callable[[Path], object] = Path.exists
    halfway: tuple[str, ...] = ()


def _command(line: str) -> tuple[str, ...]:
    return ("-c", "from docagent_rl.cli import main; main()", *line.split())


def _pdf(path: Path, pages: int, word: str) -> None:
    outline = [(f"{word} section {page}", 0, page) for page in range(1, pages + 1)]
    write_pdf(path, [f"{word} page {page}" for page in range(1, pages + 1)], outline=outline)


def _inbox(folder: Path) -> None:
    """Write documents of one and of two ranges of pages, and page images."""
    _pdf(folder / "in" / "short.pdf", 2, "short")
    _pdf(folder / "in" / "long.pdf", 18, "long")
    (folder / "in" / "images").mkdir()
    for number in (1, 2):
        Image.new("RGB", (60, 40), (40 * number, 90, 30)).save(
            folder / "in" / "images" / f"{number}.png"
        )


def _other_store(folder: Path) -> None:
    """Make a store of earlier versions of the documents."""
    _inbox(folder)
    _pdf(folder / "old" / "short.pdf", 3, "former")
    _pdf(folder / "old" / "long.pdf", 17, "former")
    ingest(folder / "old", folder / "store", settings=_LOW, workers=1)


def _indexed(folder: Path) -> None:
    """Make a store and an index with other settings."""
    _inbox(folder)
    ingest(folder / "in", folder / "store", settings=_LOW, workers=1)
    BM25Retriever.build(DocumentStore(folder / "store"), settings=BM25Settings(k1=0.7)).save(
        folder / "index"
    )


def _last_week(folder: Path) -> None:
    """Make a store and an index of a folder of which documents have been changed, renamed and
    removed since.
    """
    _inbox(folder)
    for name in ("renamed", "gone"):
        _pdf(folder / "in" / f"{name}.pdf", 1, name)
    ingest(folder / "in", folder / "store", settings=_LOW, workers=1)
    BM25Retriever.build(DocumentStore(folder / "store")).save(folder / "index")
    _pdf(folder / "in" / "short.pdf", 3, "latter")
    (folder / "in" / "renamed.pdf").rename(folder / "in" / "new.pdf")
    (folder / "in" / "gone.pdf").unlink()


def _removed(folder: Path) -> None:
    """Make a store from which documents were removed."""
    _inbox(folder)
    ingest(folder / "in", folder / "store", settings=_LOW, workers=1)
    remove(folder / "store", ["long", "images"])


def _questions(folder: Path) -> None:
    """Make a store and questions, and files with fewer of these questions."""
    from docagent_rl.samples.parquet import write_parquet

    synthesize(folder / "synthetic", _SYNTHETIC)
    ingest(folder / "synthetic" / "pdfs", folder / "store", settings=_LOW, workers=1)
    shutil.move(folder / "synthetic" / "samples.jsonl", folder / "questions.jsonl")
    samples = read_questions(folder / "questions.jsonl")
    write_parquet(samples[:3], folder / "data" / "train.parquet")
    write_parquet(samples[3:5], folder / "data" / "val.parquet")


_INGEST = "ingest in --store store --dpi 20"
_NOTES = ("store/partial/*",)

QUICK = (
    Job("ingest", _command(f"{_INGEST} --workers 2"), _inbox, _NOTES),
    Job("ingest --replace", _command(f"{_INGEST} --workers 1 --replace"), _other_store, _NOTES),
    Job(
        "ingest --mirror",
        _command(f"{_INGEST} --workers 1 --mirror --index index"),
        _last_week,
        _NOTES,
    ),
    Job("store prune", _command("store prune store"), _removed),
    Job("index build", _command("index build --store store --out index --force"), _indexed),
    Job(
        "data convert",
        _command("data convert questions.jsonl --out data --split 0.3 --store store --force"),
        _questions,
    ),
    Job("trajectories", ("-c", _TRAJECTORIES), _questions),
)
JOBS = (
    *QUICK,
    Job("data generate", _command("data generate --store store --out outline.jsonl"), _questions),
    Job("data synth", _command("data synth --out made --documents 2 --difficulty easy")),
)
