"""Commands that write files, with small inputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.records.record import read_jsonl
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.synth import SynthSettings, synthesize
from docagent_rl.synth.settings import Difficulty

HERE = Path(__file__).parent
CLI = ("-c", "from docagent_rl.cli import main; main()")
CARD = ("-m", "bias_card")
SYNTHETIC = SynthSettings(documents=2, seed=5, difficulties=(Difficulty.EASY,))
LOW = RenderSettings(dpi=20)


@dataclass(frozen=True)
class Job:
    """A command in a folder.

    Args:
        name: of the table.
        argv: what `python` gets.
        prepare: makes the inputs in a folder, which is then the command's working directory.
        halfway: patterns of files that a killed command may leave in a state that is neither the one before
            nor the one after: its own notes of what is done.
        seconds: what a point takes, roughly, on an idle core.
    """

    name: str
    argv: tuple[str, ...]
    prepare: Callable[[Path], None]
    halfway: tuple[str, ...] = ()
    seconds: float = 1.0


def pdf(path: Path, pages: int, word: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=(200, 100), invariant=True)
    for page in range(pages):
        canvas.bookmarkPage(str(page))
        canvas.addOutlineEntry(f"{word} section {page}", str(page))
        canvas.drawString(10, 50, f"{word} page {page}")
        canvas.showPage()
    canvas.save()


def inbox(folder: Path) -> None:
    """Documents of one and of two ranges of pages, and page images."""
    pdf(folder / "in" / "short.pdf", 2, "short")
    pdf(folder / "in" / "long.pdf", 18, "long")
    (folder / "in" / "images").mkdir()
    for number in (1, 2):
        Image.new("RGB", (60, 40), (40 * number, 90, 30)).save(folder / "in" / "images" / f"{number}.png")


def store(folder: Path) -> None:
    inbox(folder)
    ingest(folder / "in", folder / "store", settings=LOW, workers=1)


def other_store(folder: Path) -> None:
    """A store of earlier versions of the documents."""
    inbox(folder)
    pdf(folder / "old" / "short.pdf", 3, "former")
    pdf(folder / "old" / "long.pdf", 17, "former")
    ingest(folder / "old", folder / "store", settings=LOW, workers=1)


def indexed(folder: Path) -> None:
    """A store and an index by other settings."""
    store(folder)
    BM25Retriever.build(DocumentStore(folder / "store"), settings=BM25Settings(k1=0.7)).save(folder / "index")


def questions(folder: Path) -> None:
    synthesize(folder / "synthetic", SYNTHETIC)
    ingest(folder / "synthetic" / "pdfs", folder / "store", settings=LOW, workers=1)
    shutil.move(folder / "synthetic" / "records.jsonl", folder / "questions.jsonl")


def converted(folder: Path) -> None:
    """Questions, and files made of fewer of them."""
    from docagent_rl.records.parquet import write_parquet

    questions(folder)
    records = read_jsonl(folder / "questions.jsonl")
    write_parquet(records[:3], folder / "data" / "train.parquet")
    write_parquet(records[3:5], folder / "data" / "val.parquet")


def card(folder: Path) -> None:
    """An earlier page of other numbers."""
    (folder / "out").mkdir()
    (folder / "out" / "bias_card.md").write_text("# something else\n")


_STORE_NOTES = ("store/partial/*",)
_SYNTH_NOTES = ("*/.parts/*", "*/synth.json")

JOBS = (
    Job(
        "ingest",
        (*CLI, "ingest", "in", "--store", "store", "--dpi", "20", "--workers", "1"),
        inbox,
        _STORE_NOTES,
    ),
    Job(
        "ingest, two workers",
        (*CLI, "ingest", "in", "--store", "store", "--dpi", "20", "--workers", "2"),
        inbox,
        _STORE_NOTES,
    ),
    Job(
        "ingest --replace",
        (*CLI, "ingest", "in", "--store", "store", "--dpi", "20", "--workers", "1", "--replace"),
        other_store,
        _STORE_NOTES,
    ),
    Job("index build", (*CLI, "index", "build", "--store", "store", "--out", "index"), store),
    Job(
        "index build --force",
        (*CLI, "index", "build", "--store", "store", "--out", "index", "--force"),
        indexed,
    ),
    Job(
        "data convert",
        (*CLI, "data", "convert", "questions.jsonl", "--store", "store", "--out", "data", "--split", "0.3"),
        questions,
    ),
    Job(
        "data convert --force",
        (*CLI, "data", "convert", "questions.jsonl", "--out", "data", "--split", "0.3", "--force"),
        converted,
    ),
    Job("data generate", (*CLI, "data", "generate", "--store", "store", "--out", "outline.jsonl"), questions),
    Job("data template", (*CLI, "data", "template", "--out", "new/questions.jsonl"), lambda folder: None),
    Job(
        "data synth",
        (*CLI, "data", "synth", "--out", "synthetic", "--documents", "2", "--difficulty", "easy"),
        lambda folder: None,
        _SYNTH_NOTES,
        2,
    ),
    Job(
        "demo",
        (str(HERE / "small_demo.py"), "workspace"),
        lambda folder: None,
        ("workspace/store/partial/*", *_SYNTH_NOTES, "workspace/docagent_demo.json"),
        20,
    ),
    Job(
        "bias card",
        (*CARD, "--group-size", "2", "--out", "out"),
        lambda folder: None,
        seconds=5,
    ),
    Job(
        "bias card --force",
        (*CARD, "--group-size", "2", "--out", "out", "--force"),
        card,
        seconds=5,
    ),
    Job(
        "sessions",
        (str(HERE / "collect_sessions.py"), "sessions"),
        lambda folder: None,
        ("sessions/task/store/partial/*",),
        10,
    ),
)


def job(name: str) -> Job:
    return next(each for each in JOBS if each.name == name)


def modules() -> tuple[str, ...]:
    """What the warm process imports."""
    return ("tests.faults.imports", "tests.faults.file_events")
