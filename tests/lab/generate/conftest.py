import pytest

from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.synth import DocumentDifficulty, SynthSettings, synthesize
from tests.chat_server import ChatServer, threaded
from tests.lab.generate.reading_model import reply_to, write_colours, write_pdf


@pytest.fixture(scope="session")
def reports(tmp_path_factory) -> DocumentStore:
    """Return four reports of the test's own, and a synthetic one."""
    folder = tmp_path_factory.mktemp("generate")
    (folder / "pdf").mkdir()
    for name, pages in {"alpha": 6, "beta": 8, "gamma": 5, "delta": 7}.items():
        write_pdf(folder / "pdf" / f"{name}.pdf", name, pages)
    synthesize(
        folder / "synth",
        SynthSettings(documents=1, seed=8, difficulties=(DocumentDifficulty.MEDIUM,)),
    )
    for path in (folder / "synth" / "pdfs").glob("*.pdf"):
        path.rename(folder / "pdf" / path.name)
    ingest(folder / "pdf", folder / "store", workers=1, settings=RenderSettings(dpi=50))
    return DocumentStore(folder / "store")


@pytest.fixture(scope="session")
def sheets(tmp_path_factory) -> DocumentStore:
    """Return a document of coloured sheets without text."""
    folder = tmp_path_factory.mktemp("sheets")
    (folder / "pdf").mkdir()
    write_colours(folder / "pdf" / "sheets.pdf", ["red", "green", "blue", "white"])
    unread = OcrMode.NEVER
    ingest(folder / "pdf", folder / "store", workers=1, settings=RenderSettings(dpi=72), ocr=unread)
    return DocumentStore(folder / "store")


@pytest.fixture
def server():
    with threaded(ChatServer(compute=reply_to)) as running:
        yield running
