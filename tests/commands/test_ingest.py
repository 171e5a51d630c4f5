import shutil
from types import SimpleNamespace

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from docagent_rl.commands.ingest import check_command, ingest_command
from docagent_rl.documents import PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.training.trainer.archive import write_lines
from tests.checkpoints.saved import flip, save
from tests.commands.conftest import called
from tests.documents.conftest import write_pdf


@pytest.fixture
def inbox(tmp_path):
    return write_pdf(tmp_path / "inbox" / "good.pdf", ["hello"]).parent


@pytest.fixture
def ingested(tmp_path):
    places = (tmp_path / "inbox", "--store", tmp_path / "store", "--workers", "1")
    return lambda *options, **expected: called(ingest_command, *places, *options, **expected).output


@pytest.fixture
def document(tmp_path):
    return lambda name="good": DocumentStore(tmp_path / "store").document(name)


def test_a_stored_document_is_replaced_when_asked_alone(inbox, ingested, document):
    assert "1 documents ingested (1 pages); 0 unchanged; 0 failed" in ingested("--dpi", "36")
    assert "1 unchanged" in ingested("--dpi", "36")
    told = ingested("--dpi", "72", status=2)
    assert "1 left" in told
    assert "good" in told
    assert document().page(1).size == (100, 50)
    assert "1 of them replaced" in ingested("--dpi", "72", "--replace")
    assert document().page(1).size == (200, 100)


def test_bad_files_are_listed_and_the_status_is_2(inbox, ingested, document):
    (inbox / "[red]bad.pdf").touch()
    assert "[red]bad.pdf" in ingested(status=2)
    assert document().page(1).text() == "hello"
    with pytest.raises(UserError, match=r"bad\.pdf"):
        ingested("--strict")


FAST = RenderSettings(dpi=10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("check")
    (root / "inbox").mkdir()
    for name, texts in {"report": ["alpha", "beta", "beta"], "other": ["gamma"]}.items():
        canvas = Canvas(str(root / "inbox" / f"{name}.pdf"), pagesize=(200, 100), invariant=True)
        for text in texts:
            canvas.drawString(10, 50, text)
            canvas.showPage()
        canvas.save()
    ingest(root / "inbox", root / "store", settings=FAST, workers=1)
    BM25Retriever.build(DocumentStore(root / "store")).save(root / "index")
    return root


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def check(*paths, status=0):
    return called(check_command, *paths, status=status).output.replace("\n", " ")


def test_whole_folders_have_status_0(folder, run):
    told = check(folder / "store", folder / "index")
    assert "2 documents, 4 pages, 6 objects; all whole" in told
    assert "an index of 4 pages (bm25); all whole" in told
    for path in (run, run / "checkpoints"):
        assert "3 checkpoints" in (told := check(path))
        assert "; all whole" in told
    assert "1 checkpoint; all whole" in check(run / "checkpoints" / "global_step_2")


def test_every_damaged_object_is_listed_with_its_pages(folder):
    store = DocumentStore(folder / "store")
    pages = [store.page(PageRef("report", n)) for n in (1, 2)]
    picture = store.objects.root / pages[0].image_hash[:2] / f"{pages[0].image_hash}.jpg"
    text = store.objects.root / pages[1].text_hash[:2] / f"{pages[1].text_hash}.txt.gz"
    picture.write_bytes(pages[1].image_bytes())
    text.unlink()
    told = check(folder / "store", status=1)
    for part in (picture, "[report#1 (image)]", text, "report#2 (text), report#3 (text)", "2 damaged"):
        assert str(part) in told
    # the advice is good
    picture.unlink()
    ingest(folder / "inbox", folder / "store", settings=FAST, workers=1)
    check(folder / "store")
    assert DocumentStore(folder / "store").page(PageRef("report", 2)).text() == "beta"


@pytest.fixture
def run(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path / "run" / "checkpoints", step)
        trajectories = [SimpleNamespace(question_id=f"q{n}", uid="u", number=0) for n in range(3)]
        write_lines(tmp_path / "run", step, [(each, [b'{"reward": 1}']) for each in trajectories])
    return tmp_path / "run"


def test_damage_of_a_run_is_listed_and_another_folder_refused(run, tmp_path):
    saved = run / "checkpoints"
    flip(saved / "global_step_2" / "data.pt")
    told = check(run, status=1)
    for part in ("global_step_2: data.pt: ", "1 damaged"):
        assert part in told
    with pytest.raises(UserError, match=str(tmp_path)):
        check(tmp_path)


DAMAGES = {
    "another text behind a text": ("store/objects/*/*.gz", lambda data: data * 2),
    "trajectories are cut": ("run/trajectories/2.jsonl", lambda data: data[:-20]),
    "a trajectory is edited": ("run/trajectories/2.jsonl", lambda data: data.replace(b"1", b"9", 1)),
    "the seal is edited": ("run/trajectories/2.json", lambda data: data.replace(b"3", b"4", 1)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_named_with_its_file(folder, run, name):
    pattern, spoilt = DAMAGES[name]
    shutil.copytree(run, folder / "run")
    path = sorted(folder.glob(pattern))[0]
    path.write_bytes(spoilt(path.read_bytes()))
    named = path.with_suffix(".jsonl") if path.parent.name == "trajectories" else path
    told = check(folder / path.relative_to(folder).parts[0], status=1)
    assert f"{named}" in told
    assert "; 1 damaged" in told


def test_runs_without_seals_are_read_and_say_so(run):
    for path in (run / "trajectories").glob("*.json"):
        path.unlink()
    assert "3 of its steps" in check(run)
